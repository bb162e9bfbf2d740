"""The signals of a TaskManager's process."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import signal, threading, time
from backend.cluster.management.commands.taskmanager import _Signals

signals = _Signals()
other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
other.start()
# what the kernel does now and then if there are several threads
threading.Timer(1.0, signal.pthread_kill, (other.ident, signal.SIGTERM)).start()
signals.wait()
print("told", signals.at_once.is_set(), flush=True)
os._exit(0)
"""


def test_a_signal_that_another_thread_gets_is_noticed() -> None:
    environment = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.django_settings'; django.setup()"
    done = subprocess.run(
        [sys.executable, "-c", environment + _PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "told False\n", done.stderr

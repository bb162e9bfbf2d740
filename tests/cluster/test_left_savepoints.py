"""What earlier leaders have left of savepoints, on a storage that does not answer."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, time
os.environ["DJANGO_SETTINGS_MODULE"] = "backend.config.settings"
import django
django.setup()
from backend.cluster.left_savepoints import LeftSavepoints
class Hung:
    def load(self, directory):
        time.sleep(60)
left = LeftSavepoints(Hung(), lambda: True)
left.seen("trigger", "file:///savepoint")
time.sleep(0.2)
left.close()
"""


def test_a_jobmanager_can_end_while_the_storage_does_not_answer() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=30)

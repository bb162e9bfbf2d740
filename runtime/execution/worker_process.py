"""What a worker of Spark's does before it runs anything of a job.

It was forked with the engine imported, as its siblings were.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

import numpy as np

from runtime.core.garbage import collect_garbage_less_often

PR_SET_PDEATHSIG: Final = 1


def settle_worker() -> None:
    """Make this process one that works for a while, has random numbers of its own, and does not outlive its parent."""
    _die_with_parent()
    # forked with the same state as all its siblings; Python's own generator reseeds itself
    np.random.seed()
    collect_garbage_less_often()


def _die_with_parent() -> None:
    """Have this worker killed when the daemon that forked it dies: Spark would never find an orphan. Linux only."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)

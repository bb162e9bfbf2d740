"""Memory of a slot's process.

Read from the kernel with each heartbeat, once a slot: 10 µs. Tasks that share a slot, and slots that share a process
(MiniCluster), report the same number. Source: proc(5), /proc/self/statm.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

RESIDENT = "Status.Process.Memory.Resident"
PEAK = "Status.Process.Memory.ResidentPeak"
_STATM = Path("/proc/self/statm")
_HAS_STATM = _STATM.exists()
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: ru_maxrss counts KiB on Linux and bytes on macOS
_PEAK_UNIT = 1024 if _HAS_STATM else 1


def memory_metrics() -> dict[str, object]:
    """Return the current and the maximum bytes; only the latter where the kernel has no /proc."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT
    if not _HAS_STATM:
        return {PEAK: peak}
    resident = int(_STATM.read_bytes().split(maxsplit=2)[1]) * _PAGE_BYTES
    # the kernel counts the peak a little behind
    return {RESIDENT: resident, PEAK: max(peak, resident)}

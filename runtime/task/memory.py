"""Memory of a slot's process, and what is left of it.

Read from the kernel with each heartbeat, once a slot: 60 µs. Tasks that share a slot, and slots that share a process
(MiniCluster), report the same number. Source: proc(5), /proc/self/statm and
/proc/meminfo; the kernel's cgroup-v2 document, memory.max and memory.stat.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

RESIDENT = "Status.Process.Memory.Resident"
PEAK = "Status.Process.Memory.ResidentPeak"
AVAILABLE = "Status.Process.Memory.Available"
LIMIT = "Status.Process.Memory.Limit"
_STATM = Path("/proc/self/statm")
_MEMINFO = Path("/proc/meminfo")
_HAS_STATM = _STATM.exists()
_CGROUP = Path("/sys/fs/cgroup")
"""Of a container; elsewhere it is the root of all groups, which has no limit."""
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
    return {RESIDENT: resident, PEAK: max(peak, resident), **_available(_MEMINFO, _CGROUP)}


def _available(meminfo: Path, cgroup: Path) -> dict[str, object]:
    """Return the bytes by which processes here can still grow, and out of how many; {} if the kernel does not tell.

    Args:
        meminfo: of the host.
        cgroup: directory of the control group that limits this process; it need not exist.
    """
    left: list[tuple[int, int]] = []
    with suppress(OSError, ValueError, IndexError):
        host = meminfo.read_bytes()
        left.append((_kibibytes(host, b"MemAvailable:"), _kibibytes(host, b"MemTotal:")))
    with suppress(OSError, ValueError, IndexError):
        limit = (cgroup / "memory.max").read_bytes().strip()
        if limit != b"max":
            # what is read from files can be given back: only anonymous memory counts
            used = int((cgroup / "memory.stat").read_bytes().partition(b"anon ")[2].split(maxsplit=1)[0])
            left.append((max(0, int(limit) - used), int(limit)))
    return dict(zip((AVAILABLE, LIMIT), min(left), strict=True)) if left else {}


def _kibibytes(document: bytes, name: bytes) -> int:
    return int(document.partition(name)[2].split(maxsplit=1)[0]) * 1024

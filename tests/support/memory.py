"""Memory of processes that tests start. Linux only."""

from __future__ import annotations

from pathlib import Path


def peak_bytes(pid: int) -> int:
    """Return the most resident memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024

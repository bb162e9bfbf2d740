"""Reports of jobmanager and TaskManager processes about themselves, every five seconds: environment, threads, figures.

A thread of its own writes it to Redis, with the newest lines of the log (`process_log`); REST and Prometheus read it.
Figures are of this one process: what slots need is in the metrics of their tasks.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import platform
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, NotRequired, TypedDict

import redis
from django.conf import settings

from backend.audit.redaction import for_users, redacted_arguments
from backend.cluster import bus
from backend.cluster.process_log import RecentLog
from runtime.core.clock import SYSTEM_CLOCK
from runtime.network.refusals import REFUSALS

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 5.0
"""Time between reports. Shorter: threads are looked at for nobody; longer: users see what has long passed."""
_PROC: Final = Path("/proc/self")


class ThreadDump(TypedDict):
    name: str
    id: int
    frames: list[str]
    """"function (file:line)", innermost first."""


class ProcessReport(TypedDict):
    """A process as it sees itself."""

    kind: str
    """"jobmanager" or "taskmanager"."""
    pid: int
    started_at: int
    """Epoch ms."""
    logged_at: int
    """Epoch ms of the newest line of its log."""
    python: str
    arch: str
    arguments: list[str]
    path: list[str]
    threads: list[ThreadDump]
    figures: dict[str, float]
    """Names as in `figures_of_process`."""
    executors: NotRequired[list[dict[str, Any]]]
    """Of a TaskManager's Spark session, as `runtime.execution.spark_executors` has them; missing: it has told none."""


class ProcessReporter:
    """Reports this process until it ends.

    Args:
        process: id of this process.
        kind: "jobmanager" or "taskmanager".
        further: returns more figures of it, by name.
        executors: returns the executors of its Spark session, for `ProcessReport`.
        interval_s: time between reports.
    """

    def __init__(
        self,
        process: str,
        kind: str,
        further: Callable[[], Mapping[str, float]] = dict,
        executors: Callable[[], Sequence[Mapping[str, Any]]] | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._process = process
        self._kind = kind
        self._further = further
        self._executors = executors
        self._interval_s = interval_s
        #: whether the last report could not be written; written by the thread only
        self.is_away = False
        self._log = RecentLog(process)
        self._started_at = SYSTEM_CLOCK.now_ms()
        self._collections = Collections()
        self._levels = LogLevels()
        self._late_s = 0.0
        self._load = CpuLoad()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process-report", daemon=True)

    def start(self) -> None:
        """Begin to report; what is logged from now on is kept."""
        gc.callbacks.append(self._collections)
        for handler in (self._log, self._levels):
            logging.getLogger().addHandler(handler)
        self._thread.start()

    def stop(self) -> None:
        """Report for the last time."""
        self._stop.set()
        self._thread.join(INTERVAL_S)
        gc.callbacks.remove(self._collections)
        for handler in (self._log, self._levels):
            logging.getLogger().removeHandler(handler)

    def report(self) -> ProcessReport:
        """Return the report."""
        report: ProcessReport = {
            "kind": self._kind,
            "pid": os.getpid(),
            "started_at": self._started_at,
            "logged_at": self._levels.logged_at or self._started_at,
            "python": f"Python {platform.python_version()} ({platform.python_implementation()})",
            "arch": platform.machine(),
            "arguments": redacted_arguments(sys.orig_argv[1:]),
            "path": [entry for entry in sys.path if entry],
            "threads": thread_dumps(),
            "figures": {
                **figures_of_process(),
                "cpu_load": self._load.since_last(),
                **self._collections.figures(),
                **self._levels.figures(),
                "late_s": round(self._late_s, 3),
                "disk_free_bytes": _disk_free(),
                **{f"refused_{kind}": count for kind, count in REFUSALS.counts().items()},
                **self._further(),
            },
        }
        if self._executors is not None:
            report["executors"] = [dict(executor) for executor in self._executors()]
        return report

    def _run(self) -> None:
        while True:
            is_last = self._stop.is_set()
            try:
                text = json.dumps(self.report())
                bus.client().set(bus.PROCESS_KEY.format(self._process), text, ex=bus.PROCESS_EXPIRY_S)
                self._log.write()
                self.is_away = False
            except redis.RedisError as error:
                if not self.is_away:
                    logger.warning("this process cannot report itself: %s", error)
                self.is_away = True
            except Exception:
                # descriptors may have run out, for example: the next report tells what there is
                if not self.is_away:
                    logger.exception("this process cannot report itself")
                self.is_away = True
            due = time.monotonic() + self._interval_s
            if is_last:
                return
            self._stop.wait(self._interval_s)
            # other threads have kept this one from running
            self._late_s = max(0.0, time.monotonic() - due)


class CpuLoad:
    """Tells the share of this machine's cores that this process has used since it was last asked."""

    def __init__(self) -> None:
        self._at, self._used = time.monotonic(), time.process_time()

    def since_last(self) -> float:
        """Return the share, 0 to 1."""
        at, used = time.monotonic(), time.process_time()
        elapsed, spent = at - self._at, used - self._used
        self._at, self._used = at, used
        return round(min(1.0, spent / elapsed / (os.cpu_count() or 1)), 4) if elapsed > 0 else 0.0


class Collections:
    """Counts garbage collections and their time; a callback of `gc`."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._counts = [0, 0, 0]
        self._times_s = [0.0, 0.0, 0.0]

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._begun = time.perf_counter()
            return
        generation = info["generation"]
        self._counts[generation] += 1
        self._times_s[generation] += time.perf_counter() - self._begun

    def figures(self) -> dict[str, float]:
        """Return the number and the milliseconds of collections of each generation."""
        figures: dict[str, float] = {}
        for generation, (count, time_s) in enumerate(zip(self._counts, self._times_s, strict=True)):
            figures |= {f"gc{generation}_count": count, f"gc{generation}_ms": round(time_s * 1000)}
        return figures


class LogLevels(logging.Handler):
    """Counts log records by their level."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()
        self.logged_at = 0

    def emit(self, record: logging.LogRecord) -> None:
        self._counts[record.levelname.lower()] += 1
        self.logged_at = SYSTEM_CLOCK.now_ms()

    def figures(self) -> dict[str, float]:
        """Return the number of warnings, and of errors."""
        return {
            "log_warnings": self._counts["warning"],
            "log_errors": self._counts["error"] + self._counts["critical"],
        }


def read_process(process: str) -> ProcessReport | None:
    """Return the newest report of a process; None if there is none, or Redis does not answer."""
    try:
        return read_processes([process])[0]
    except redis.RedisError as error:
        logger.warning("a process's report cannot be read: %s", error)
        return None


def read_processes(processes: list[str]) -> list[ProcessReport | None]:
    """Return the newest reports of processes.

    Raises:
        redis.RedisError: Redis does not answer.
    """
    if not processes:
        return []
    with bus.reader().connected() as connection:
        texts: Any = connection.mget([bus.PROCESS_KEY.format(process) for process in processes])
    return [None if text is None else json.loads(text) for text in texts]


def thread_dumps() -> list[ThreadDump]:
    """Return what all Python threads of this process do."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    dumps: list[ThreadDump] = []
    for ident, frame in sys._current_frames().items():
        frames = [f"{name} ({for_users(file)}:{line})" for name, file, line in _frames(frame)]
        dumps.append({"name": names.get(ident, f"thread-{ident}"), "id": ident, "frames": frames})
    return sorted(dumps, key=lambda dump: dump["name"])


def _frames(frame: FrameType | None) -> list[tuple[str, str, int]]:
    """Return function, file and line of a thread's frames, innermost first, as far as they can be told: the thread goes
    on meanwhile, and takes frames away that this one is at.
    """
    found: list[tuple[str, str, int]] = []
    with suppress(AttributeError):
        while frame is not None:
            found.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0))
            frame = frame.f_back
    return found


def figures_of_process() -> dict[str, float]:
    """Return memory in bytes, CPU time in seconds, and counts of threads, descriptors and modules of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory, size = _memory()
    return {
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "resident_bytes": memory or usage.ru_maxrss << 10,
        "virtual_bytes": size,
        "threads": threading.active_count(),
        "descriptors": sum(1 for _ in (_PROC / "fd").iterdir()) if _PROC.exists() else 0,
        "max_descriptors": limit,
        "modules": len(sys.modules),
    }


def _memory() -> tuple[int, int]:
    """Return the bytes of this process's memory and of its address space; zeros if unknown."""
    try:
        pages = (_PROC / "statm").read_text().split()
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(pages[1]) * page, int(pages[0]) * page


def _disk_free() -> int:
    """Return the bytes that are free where TIDEMARK_HOME is, which is on this machine."""
    try:
        found = os.statvfs(settings.TIDEMARK_HOME)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize

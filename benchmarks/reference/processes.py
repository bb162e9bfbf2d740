"""Runs loops in processes of their own, which are started and warm before the clock is."""

from __future__ import annotations

import atexit
import functools
import io
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import polars as pl


class Timed(NamedTuple):
    """Times of a loop, over all its processes."""

    seconds: float
    """By the wall clock, without starting the processes."""
    cpu_seconds: float
    """Of all processes together; on a busy machine less noisy than the wall clock."""
    result: Any


def timed_parts(
    function: Callable[[Any], Any], parts: Sequence[Any], merge: Callable[[list[Any]], Any] = lambda results: results
) -> Timed:
    """Run `function` on each part, each in a process of its own with one Polars thread; then `merge` the results.

    Both are within the measured time.
    """
    pool = _pool(len(parts), 1)
    started, cpu_started = time.monotonic(), time.process_time()
    found = list(pool.map(functools.partial(_with_cpu, function), parts))
    result = merge([result for _, result in found])
    cpu_seconds = sum(cpu for cpu, _ in found) + time.process_time() - cpu_started
    return Timed(time.monotonic() - started, cpu_seconds, result)


def timed_alone(function: Callable[..., Any], *arguments: Any, threads: int) -> Timed:
    """`function(*arguments)` in one process whose Polars has that many threads."""
    pool = _pool(1, threads)
    started = time.monotonic()
    cpu_seconds, result = pool.submit(_with_cpu, function, *arguments).result()
    return Timed(time.monotonic() - started, cpu_seconds, result)


def _with_cpu(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    started = time.process_time()
    result = function(*arguments)
    return time.process_time() - started, result


def warm_pools(processes: int) -> None:
    """Start what `timed_parts` and `timed_alone` use, so that no measurement pays for it."""
    for size, threads in ((processes, 1), (1, processes)):
        _pool(size, threads)


@functools.cache
def _pool(processes: int, threads: int) -> ProcessPoolExecutor:
    # spawned: a fork of a process in which Polars has threads already may hang
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent)
    atexit.register(pool.shutdown, cancel_futures=True)
    with _polars_threads(threads):
        list(pool.map(_warm_up, range(processes * 4)))
    return pool


@contextmanager
def _polars_threads(threads: int) -> Iterator[None]:
    """Processes that start meanwhile give Polars that many threads: it reads the number once, when it is imported."""
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    try:
        yield
    finally:
        del os.environ["POLARS_MAX_THREADS"]
        if before is not None:
            os.environ["POLARS_MAX_THREADS"] = before


def _end_with_parent() -> None:
    """See to it that this process ends when the one that started it has, however that ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_exit_behind, args=(parent.sentinel,), daemon=True).start()


def _exit_behind(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)  # the main thread waits for work, or is in the middle of some


def _warm_up(_: int) -> int:
    """Use what the loops need once: a process imports it while it starts."""
    time.sleep(0.05)
    return pl.read_ndjson(io.BytesIO(b'{"auction":1}\n')).group_by("auction").len().height

"""Responses about the process of a jobmanager or TaskManager: logs, threads, environment, Status.JVM metrics.

The process is Python: its memory is the heap, its modules are the classes, its collector's generations are the
collectors. What Python does not have, such as a metaspace, is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backend.cluster.process_report import ProcessReport

LOG_NAMES: Final = {"jobmanager": "jobmanager.log", "taskmanager": "taskmanager.log"}
OUT_NAME: Final = "taskmanager.out"
_GENERATIONS: Final = ("Gen0", "Gen1", "Gen2")
_POOLS: Final = ("Direct", "Mapped")
_NETWORK: Final = ("AvailableMemory", "AvailableMemorySegments", "RequestedMemoryUsage")
_NETWORK_TOTALS: Final = ("TotalMemory", "TotalMemorySegments", "UsedMemory", "UsedMemorySegments")


def thread_infos(report: ProcessReport | None) -> dict[str, Any]:
    """Return the response of …/thread-dump; no threads if the process has not reported."""
    threads = [] if report is None else report["threads"]
    return {
        "threadInfos": [
            {
                "threadName": thread["name"],
                "stringifiedThreadInfo": "\n\tat ".join([f'"{thread["name"]}" Id={thread["id"]}', *thread["frames"]])
                + "\n\n",
            }
            for thread in threads
        ]
    }


def environment_info(report: ProcessReport | None) -> dict[str, Any]:
    """Return the response of /jobmanager/environment; empty if the process has not reported."""
    if report is None:
        return {"jvm": {"version": "", "arch": "", "options": []}, "classpath": []}
    jvm = {"version": report["python"], "arch": report["arch"], "options": report["arguments"]}
    return {"jvm": jvm, "classpath": report["path"]}


def process_metrics(report: ProcessReport | None, memory_limit: int = 0) -> dict[str, float]:
    """Return the Status.JVM metrics of a process; none if it has not reported.

    Args:
        report: its report.
        memory_limit: bytes of memory of its machine; 0: unknown.
    """
    if report is None:
        return {}
    figures = report["figures"]
    lifetime_s = max(1.0, (report["logged_at"] - report["started_at"]) / 1000)
    values: dict[str, float] = {
        "Status.JVM.CPU.Load": figures["cpu_load"],
        "Status.JVM.CPU.Time": round(figures["cpu_s"] * 1e9),
        "Status.JVM.ClassLoader.ClassesLoaded": figures["modules"],
        "Status.JVM.ClassLoader.ClassesUnloaded": 0,
        "Status.JVM.FileDescriptor.Max": figures["max_descriptors"],
        "Status.JVM.FileDescriptor.Open": figures["descriptors"],
        "Status.JVM.Memory.Heap.Committed": figures["resident_bytes"],
        "Status.JVM.Memory.Heap.Max": memory_limit or -1,
        "Status.JVM.Memory.Heap.Used": figures["resident_bytes"],
        "Status.JVM.Threads.Count": figures["threads"],
    }
    for space in ("Metaspace", "NonHeap"):
        values |= {f"Status.JVM.Memory.{space}.{name}": 0 for name in ("Committed", "Used")}
        values[f"Status.JVM.Memory.{space}.Max"] = -1
    for pool in _POOLS:
        values |= {f"Status.JVM.Memory.{pool}.{name}": 0 for name in ("Count", "MemoryUsed", "TotalCapacity")}
    for name, count, time_ms in collectors(report):
        prefix = f"Status.JVM.GarbageCollector.{name}"
        values |= {f"{prefix}.Count": count, f"{prefix}.Time": time_ms}
        values[f"{prefix}.TimeMsPerSecond"] = round(time_ms / lifetime_s, 2)
    return values


def memory_pool_metrics() -> dict[str, float]:
    """Return the metrics of Flink's memory pools of a TaskManager, which do not exist here: 0."""
    values: dict[str, float] = {f"Status.Shuffle.Netty.{name}": 0 for name in (*_NETWORK, *_NETWORK_TOTALS)}
    return values | {f"Status.Flink.Memory.Managed.{name}": 0 for name in ("Total", "Used")}


def collectors(report: ProcessReport | None) -> list[tuple[str, int, int]]:
    """Return (name, collections, ms) of each generation, and of all; empty if the process has not reported."""
    if report is None:
        return []
    figures = report["figures"]
    found = [
        (name, int(figures[f"gc{generation}_count"]), int(figures[f"gc{generation}_ms"]))
        for generation, name in enumerate(_GENERATIONS)
    ]
    return [("All", sum(count for _, count, _ in found), sum(time_ms for *_, time_ms in found)), *found]


def jvm_figures(report: ProcessReport | None, memory_limit: int) -> dict[str, Any]:
    """Return the "metrics" of /taskmanagers/:taskmanagerid that a Python process has."""
    metrics: Mapping[str, float] = process_metrics(report, memory_limit)
    heap = {
        f"heap{name}": metrics[f"Status.JVM.Memory.Heap.{name}"] for name in ("Used", "Committed", "Max") if metrics
    }
    return heap | {
        "garbageCollectors": [{"name": name, "count": count, "time": ms} for name, count, ms in collectors(report)]
    }

"""Reads of a cluster's REST API while a job runs: so many a second, of all kinds, and how long each takes.

Run as `python -m benchmarks.reads`, on a machine that does nothing else; `make bench` does so at its end. It starts
a whole cluster in a directory of its own, with the demonstration's job, and sends requests at fixed times whether or
not earlier ones are answered. A duration begins when a request was due, so a server that falls behind shows. Exit code
1: some were not answered with 200, or the 95th percentile is above the limit.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import queue
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster.stack import Stack, running_stack
from tests.support.waiting import wait_until

CONNECTIONS: Final = 32
"""Kept open, as those of pages are. Fewer: requests wait for each other here; more: so do threads."""
WARM_UP_S: Final = 5.0


@dataclass(slots=True)
class Answers:
    """The answers to the requests; each thread appends to it."""

    by_kind: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Kind → ms."""
    refused: list[str] = field(default_factory=list)

    @property
    def all_ms(self) -> list[float]:
        return [ms for each in self.by_kind.values() for ms in each]


def paths_of(job: str, vertices: Sequence[str], taskmanager: str) -> dict[str, str]:
    """Return kind → path: what pages, Flink's clients and Prometheus ask for, those of which more are sent first."""
    first, *_ = vertices
    return {
        "cluster": "/api/v1/cluster",
        "job": f"/api/v1/jobs/{job}/live",
        "overview": "/v1/overview",
        "jobs": "/v1/jobs/overview",
        "job of Flink": f"/v1/jobs/{job}",
        "vertex": f"/v1/jobs/{job}/vertices/{first}",
        "metrics of subtasks": f"/v1/jobs/{job}/vertices/{first}/subtasks/metrics?get=numRecordsIn,busyTimeMsPerSecond",
        "checkpoints": f"/v1/jobs/{job}/checkpoints",
        "exceptions": f"/v1/jobs/{job}/exceptions",
        "plan": f"/v1/jobs/{job}/plan",
        "watermarks": f"/v1/jobs/{job}/vertices/{first}/watermarks",
        "taskmanager": f"/v1/taskmanagers/{taskmanager}",
        "restore points": f"/api/v1/jobs/{job}/restore-points",
        "pipelines": "/api/v1/pipelines",
        "Prometheus": "/metrics",
    }


def send(port: int, token: str, due: queue.SimpleQueue[tuple[float, str, str] | None], answers: Answers) -> None:
    """Send what is due, one request after the other, until there is None."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {token}"}
    while (item := due.get()) is not None:
        at, kind, path = item
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                answers.refused.append(f"{kind}: {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            answers.refused.append(f"{kind}: {error!r}")
            connection.close()
        answers.by_kind[kind].append((time.monotonic() - at) * 1000)
    connection.close()


def load(port: int, token: str, paths: dict[str, str], rate: float, seconds: float) -> Answers:
    """Send requests at a rate for some seconds; return what came of them."""
    due: queue.SimpleQueue[tuple[float, str, str] | None] = queue.SimpleQueue()
    answers = Answers({kind: [] for kind in paths})
    threads = [threading.Thread(target=send, args=(port, token, due, answers)) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    kinds = itertools.cycle(paths.items())
    for number in range(int(rate * seconds)):
        at = begun + number / rate
        wait_s = at - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        due.put((at, *next(kinds)))
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    return answers


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of them is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def running_job(stack: Stack) -> dict[str, Any]:
    """Wait until the demonstration's job runs, and return it."""

    def jobs() -> list[dict[str, Any]]:
        return [job for job in stack.client.jobs() if job["state"] == "RUNNING"]

    wait_until(lambda: bool(jobs()), 120, "a job runs")
    return jobs()[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reads", description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--web-processes", type=int, default=2, help="a Python process answers on one core")
    parser.add_argument("--limit-ms", type=float, default=60.0, help="of the 95th percentile")
    given = parser.parse_args(arguments)
    web = {"TIDEMARK_WEB_PROCESSES": str(given.web_processes)}
    with tempfile.TemporaryDirectory() as home, running_stack(Path(home), **web) as stack:
        token = (stack.home / "admin-token").read_text().strip()
        job = running_job(stack)["jid"]
        document = stack.client.live(job)
        taskmanager = stack.client.cluster()["taskmanagers"][0]["id"]
        paths = paths_of(job, [vertex["id"] for vertex in document["vertices"]], taskmanager)
        load(stack.port, token, paths, given.rate / 4, WARM_UP_S)
        answers = load(stack.port, token, paths, given.rate, given.seconds)
    print(f"{'':22}{'requests':>10}{'p50 ms':>10}{'p95 ms':>10}{'p99 ms':>10}")
    for kind, times in [*answers.by_kind.items(), ("all", answers.all_ms)]:
        figures = (statistics.median(times), percentile(times, 0.95), percentile(times, 0.99))
        print(f"{kind:22}{len(times):>10}" + "".join(f"{figure:>10.1f}" for figure in figures))
    for text in sorted(set(answers.refused)):
        print(f"{answers.refused.count(text)} × {text}")
    p95 = percentile(answers.all_ms, 0.95)
    print(f"{given.rate:g} requests/s while a job runs: p95 {p95:.1f} ms, limit {given.limit_ms:g} ms")
    return 0 if p95 <= given.limit_ms and not answers.refused else 1


if __name__ == "__main__":
    sys.exit(main())

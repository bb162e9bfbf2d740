"""Live connections of a cluster while a job runs: how long a change takes to reach each of many pages.

Run as `python -m benchmarks.sockets`, on a machine that does nothing else; `make bench` does so at its end. It starts a
whole cluster in a directory of its own, with the demonstration's job, and opens connections that subscribe to what a
job's page does. A change's time is from the JobManager's clock in the document to its arrival. Exit code 1: a
connection got no change or was lost, or the 95th percentile is above the limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from benchmarks.reads import percentile, running_job
from tests.cluster.stack import running_stack

SUBPROTOCOL: Final = Subprotocol("tidemark.live.3")
"""That of backend.live.authentication, which wants Django."""
WARM_UP_S: Final = 5.0
AT_ONCE: Final = 20
"""Connections that are opened beside each other; more: the server's queue of new ones is full."""


@dataclass(slots=True)
class Page:
    """The changes that one connection has brought since it was told to count."""

    changes_ms: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    is_lost: bool = False


async def follow(socket: ClientConnection, topics: Sequence[str], counts: asyncio.Event, page: Page) -> None:
    """Subscribe, and take what comes until the connection is closed."""
    for topic in topics:
        await socket.send(json.dumps({"type": "subscribe", "topic": topic}))
    try:
        async for frame in socket:
            arrived_ms = time.time() * 1000
            message = json.loads(frame)
            if counts.is_set() and message["type"] == "change" and "now" in message["patch"]:
                page.changes_ms.append(arrived_ms - message["patch"]["now"])
                page.sizes.append(len(frame))
    except ConnectionClosed:
        pass
    page.is_lost = counts.is_set()


async def watch(port: int, token: str, topics: Sequence[str], clients: int, seconds: float) -> list[Page]:
    """Open the connections, and return what each has brought in some seconds."""
    counts, opening, pages = asyncio.Event(), asyncio.Semaphore(AT_ONCE), [Page() for _ in range(clients)]
    headers = {"Authorization": f"Bearer {token}", "Origin": f"http://127.0.0.1:{port}"}

    async def open_one() -> ClientConnection:
        async with opening:
            return await connect(
                f"ws://127.0.0.1:{port}/ws/live",
                additional_headers=headers,
                subprotocols=[SUBPROTOCOL],
                max_size=None,
                open_timeout=60,
            )

    sockets = await asyncio.gather(*(open_one() for _ in pages))
    async with asyncio.TaskGroup() as followers:
        for socket, page in zip(sockets, pages, strict=True):
            followers.create_task(follow(socket, topics, counts, page))
        await asyncio.sleep(WARM_UP_S)
        counts.set()
        await asyncio.sleep(seconds)
        counts.clear()
        for socket in sockets:
            await socket.close()
    return pages


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sockets", description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--limit-ms", type=float, default=300.0, help="of the 95th percentile")
    given = parser.parse_args(arguments)
    print(f"{'clients':>8}{'changes':>10}{'bytes':>10}{'p50 ms':>10}{'p95 ms':>10}{'p99 ms':>10}")
    with (
        tempfile.TemporaryDirectory() as home,
        running_stack(Path(home), TIDEMARK_SOCKETS_PER_USER="0") as stack,
    ):
        token = (stack.home / "admin-token").read_text().strip()
        topics = ("cluster", f"job:{running_job(stack)['jid']}")
        # a single one is what the others are compared with
        for clients in (1, given.clients):
            pages = asyncio.run(watch(stack.port, token, topics, clients, given.seconds))
            times = [ms for page in pages for ms in page.changes_ms] or [0.0]
            sizes = [size for page in pages for size in page.sizes] or [0]
            figures = (statistics.median(times), percentile(times, 0.95), percentile(times, 0.99))
            print(f"{clients:>8}{len(times):>10}{statistics.median(sizes):>10.0f}", end="")
            print("".join(f"{figure:>10.1f}" for figure in figures), flush=True)
    lost = sum(page.is_lost or not page.changes_ms for page in pages)
    print(f"{given.clients} pages of a running job: p95 {figures[1]:.1f} ms, limit {given.limit_ms:g} ms; {lost} lost")
    return 0 if figures[1] <= given.limit_ms and not lost else 1


if __name__ == "__main__":
    sys.exit(main())

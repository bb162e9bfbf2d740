"""A job page of 50 vertices with 8 subtasks, all of whose figures move twice a second: time of its main thread.

The page is the product's; its socket is fed with documents that the JobManager's and the server's own code makes. No
machine that runs the journeys has room for such a job. Times are the main thread's own, not those of a machine that
others use.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, Route, WebSocketRoute, expect

from backend.cluster.freshness import Freshness, Source
from backend.live.feed import Feed
from backend.live.topics import job_document
from tests.e2e.site import Site
from tests.live.live_jobs import NOW, RunningJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

VERTICES, SUBTASKS = 50, 8
EVERY_MS = 500
WARM_UP, MEASURED = 20, 80
"""Numbers of changes."""
MAX_MAIN_THREAD = 0.15
MAX_FRAME_BYTES = 12_000
FRESH = Freshness(Source.LIVE, 100)


class Server:
    """The live socket of one job, whose document is another one each time."""

    def __init__(self) -> None:
        self._job, self._random = RunningJob(VERTICES, SUBTASKS), Random(7)
        self._feed = Feed(self._job.topic)
        self._socket: WebSocketRoute | None = None
        self.after_ms = 0
        self.sent_bytes: list[int] = []

    @property
    def job_id(self) -> str:
        return str(self._job.row.id)

    def document(self) -> dict[str, Any]:
        document = job_document(self._job.running(self.after_ms, self._random))
        return document | {"version": 1 + self.after_ms}

    def connected(self, socket: WebSocketRoute) -> None:
        self._socket = socket
        socket.on_message(lambda text: self._heard(json.loads(text)))

    def answer(self, route: Route) -> None:
        route.fulfill(json=self.document() | {"freshness": FRESH.to_json()})

    def _heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe" and message["topic"] == self._job.topic:
            self._feed = Feed(self._job.topic)
            self.change(EVERY_MS)

    def change(self, every_ms: int) -> None:
        self.after_ms += every_ms
        message = self._feed.next_message(self.document(), FRESH)
        assert message is not None and self._socket is not None
        text = json.dumps(message, separators=(",", ":"))
        self.sent_bytes.append(len(text))
        self._socket.send(text)
        if self.after_ms % 1_000 == 0:
            tick = {"type": "tick", "now": NOW + self.after_ms, "freshness": {self._job.topic: FRESH.to_json()}}
            self._socket.send(json.dumps(tick))


@pytest.fixture
def server(page: Page) -> Iterator[Server]:
    made = Server()
    page.route(re.compile(rf"/jobs/{made.job_id}/(?!topic)|/pipelines/jobs/"), lambda route: route.fulfill(status=404))
    page.route(re.compile(rf"/api/v1/jobs/{made.job_id}/topic"), made.answer)
    page.route(re.compile(rf"/ui/jobs/{made.job_id}"), lambda route: route.continue_())
    page.route_web_socket(re.compile("/ws/live"), made.connected)
    yield made


def opened(site: Site, page: Page, server: Server) -> CDPSession:
    """Open the job's page, to be measured."""
    made = page.context.new_cdp_session(page)
    made.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"{site.url}/ui/jobs/{server.job_id}")
    expect(page.get_by_role("group", name="Job graph").get_by_role("button", name="step 7").first).to_be_visible()
    expect(page.get_by_role("table", name="Vertices").get_by_role("row")).to_have_count(VERTICES + 1)
    return made


def metrics(tab: CDPSession) -> dict[str, float]:
    return {each["name"]: each["value"] for each in tab.send("Performance.getMetrics")["metrics"]}


def run(page: Page, server: Server, changes: int) -> None:
    """Send changes at their pace."""
    due = time.monotonic()
    for _ in range(changes):
        server.change(EVERY_MS)
        due += EVERY_MS / 1000
        page.wait_for_timeout(max(0.0, (due - time.monotonic()) * 1000))


def test_the_main_thread_of_a_live_page_is_mostly_idle(site: Site, page: Page, server: Server) -> None:
    tab = opened(site, page, server)
    run(page, server, WARM_UP)
    before = metrics(tab)
    run(page, server, MEASURED)
    share = (metrics(tab)["TaskDuration"] - before["TaskDuration"]) / (MEASURED * EVERY_MS / 1000)
    largest = max(server.sent_bytes[-MEASURED:])
    print(f"main thread {100 * share:.1f} %, frames of at most {largest} bytes")
    assert largest <= MAX_FRAME_BYTES
    assert share <= MAX_MAIN_THREAD

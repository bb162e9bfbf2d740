"""/ws/live over the whole application: origin, login, snapshots, changes, ticks; hints through a real Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings
from uvicorn.protocols.utils import ClientDisconnected

from backend.accounts.models import ApiToken
from backend.accounts.roles import Role, set_role
from backend.accounts.services import create_token
from backend.cluster import bus
from backend.cluster.cluster_document import cluster_document, job_entry
from backend.cluster.job_logs import JobLogs, SlotLogWriter
from backend.cluster.models import Job
from backend.live import consumers, documents
from backend.live.authentication import CLOSE_UNAUTHORIZED, SUBPROTOCOL, TOKEN_SUBPROTOCOL
from backend.live.consumers import LiveConsumer, Pace
from backend.live.routing import websocket_application
from backend.live.topic_types import Figures
from runtime.core.ids import Attempt, SlotId
from tests.dispatcher import rows
from tests.live.live_jobs import NOW, RunningJob
from tests.live.websocket import WebSocket
from tests.support import bus_contents
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("bus_redis")]

ORIGIN = (b"origin", b"http://localhost:8000")
RECORDS_IN = Figures._fields.index("records_in")
Connect = Callable[..., Awaitable[WebSocket]]


@pytest.fixture(autouse=True)
async def no_pools_left(bus_redis: redis.Redis) -> AsyncIterator[None]:
    """The layer keeps its connections per event loop; each test has its own."""
    layer: Any = get_channel_layer()
    yield
    await layer.close_pools()


@pytest.fixture
async def connect(no_pools_left: None) -> AsyncIterator[Connect]:
    """Connects with these headers, and ends all connections after the test."""
    opened: list[WebSocket] = []

    async def open_connection(*headers: tuple[bytes, bytes], **options: Any) -> WebSocket:
        connection = WebSocket(*headers, **options)
        assert await connection.connect()
        opened.append(connection)
        return connection

    yield open_connection
    for connection in opened:
        await connection.disconnect()


@pytest.fixture
def browser(alice: User) -> Client:
    """Alice's browser."""
    browser = Client()
    browser.force_login(alice)
    return browser


@pytest.fixture
def cookie(browser: Client) -> tuple[bytes, bytes]:
    """The session cookie of alice's browser."""
    return (b"cookie", f"tidemark-session={browser.cookies['tidemark-session'].value}".encode())


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same connection, with less time between its messages."""
    pace = Pace(between_changes_s=0.05, between_lines_s=0.05, tick_s=0.2, check_user_s=0.1, send_timeout_s=0.3)
    monkeypatch.setattr(LiveConsumer.__init__, "__defaults__", (pace,))


async def refused(*headers: tuple[bytes, bytes], **options: Any) -> bool:
    connection = WebSocket(*headers, **options)
    accepted = await connection.connect()
    await connection.disconnect()
    return not accepted


async def receive(connection: WebSocket, kind: str) -> dict[str, Any]:
    """The next message of this type; ticks in between are skipped."""
    while True:
        message = await connection.receive_json()
        if message["type"] == kind:
            return message
        assert message["type"] == "tick", message


async def publish(job: Job, **changes: Any) -> dict[str, Any]:
    """Act as the jobmanager on a change: store the document, then send the hint."""
    document = {**(job.document or {}), **changes}
    await asyncio.to_thread(bus_contents.put_document, bus.JOB_KEY.format(job.id), document)
    await hint(f"job:{job.id}", document["version"])
    return document


async def beat() -> None:
    """Act as the jobmanager does twice a second."""
    await asyncio.to_thread(bus_contents.beat)


async def hint(topic: str, version: int) -> None:
    """Send the jobmanager's hint over the channel layer."""
    layer: Any = get_channel_layer()
    await layer.group_send(topic.replace(":", "."), {"type": "live.changed", "topic": topic, "version": version})


@pytest.fixture
def job(transactional_db: None) -> Job:
    return rows.running_job()


def preview_of(user: User) -> str:
    """The id of a preview of this user that runs."""
    preview_id = f"{user.pk:032x}"
    document = {"id": preview_id, "owner": user.pk, "state": "running", "version": 1}
    bus.client().set(bus.PREVIEW_KEY.format(preview_id), json.dumps(document))
    bus.client().set(bus.PREVIEW_BEAT_KEY.format(preview_id), 1)
    return preview_id


class RunningLog:
    """The log of a slot of a job, as the leader writes it."""

    def __init__(self, home: Path, job: Job) -> None:
        self._writer = SlotLogWriter(1)
        self._logs = JobLogs(self._writer, home / "logs" / "jobs" / job.id)
        self._position = 0

    async def add(self, *lines: str) -> None:
        """Append lines, and wait until they are written."""
        text = "".join(f"{line}\n" for line in lines).encode()
        self._logs.deliver(SlotId(0), Attempt(0), "stdout", self._position, text, lambda: None)
        self._position += len(text)
        await asyncio.to_thread(wait_until, lambda: self._logs.are_written, 10, "the log")

    def close(self) -> None:
        self._logs.close()
        self._writer.close()


@pytest.fixture
def running_log(home: Path, job: Job) -> Iterator[RunningLog]:
    log = RunningLog(home, job)
    yield log
    log.close()


# --- who may connect --------------------------------------------------------------------------------------------------


async def test_anonymous_connections_are_refused() -> None:
    assert await refused(ORIGIN)
    assert await refused(ORIGIN, (b"cookie", b"tidemark-session=nonsense"))
    assert await refused(ORIGIN, (b"authorization", b"Bearer nonsense"))
    assert await refused(ORIGIN, subprotocols=[SUBPROTOCOL, TOKEN_SUBPROTOCOL + "nonsense"])


@pytest.mark.parametrize("origin", [b"https://elsewhere.example", b"http://localhost.elsewhere.example", b"null"])
async def test_other_sites_are_refused(cookie: tuple[bytes, bytes], origin: bytes) -> None:
    assert await refused((b"origin", origin), cookie)


async def test_a_session_and_a_token_may_connect(connect: Connect, cookie: tuple[bytes, bytes], alice: User) -> None:
    await connect(ORIGIN, cookie)
    token = await database_sync_to_async(create_token)(alice, "live")
    await connect(ORIGIN, (b"authorization", f"Bearer {token}".encode()))
    connection = await connect(ORIGIN, subprotocols=[SUBPROTOCOL, TOKEN_SUBPROTOCOL + token])
    await connection.send_json({"type": "ping"})
    assert (await receive(connection, "pong"))["now"] > 0


async def test_a_user_has_only_so_many_connections(
    connect: Connect, cookie: tuple[bytes, bytes], settings: Settings
) -> None:
    settings.TIDEMARK_SOCKETS_PER_USER = 2
    first = await connect(ORIGIN, cookie)
    await connect(ORIGIN, cookie)
    assert await refused(ORIGIN, cookie)
    await first.disconnect()
    await connect(ORIGIN, cookie)


@pytest.mark.parametrize("offered", [(), ("tidemark.live",)])
async def test_a_page_of_an_older_build_is_refused(cookie: tuple[bytes, bytes], offered: tuple[str, ...]) -> None:
    """It polls its own documents over REST instead, which stay as they are."""
    assert await refused(ORIGIN, cookie, subprotocols=offered)


async def test_a_logout_ends_the_connection(
    connect: Connect, cookie: tuple[bytes, bytes], alice: User, fast: None
) -> None:
    token = await database_sync_to_async(create_token)(alice, "live")
    by_cookie = await connect(ORIGIN, cookie)
    by_token = await connect(ORIGIN, (b"authorization", f"Bearer {token}".encode()))
    await receive(by_cookie, "tick")
    await database_sync_to_async(ApiToken.objects.all().delete)()
    await database_sync_to_async(User.objects.update)(is_active=False)
    for connection in (by_cookie, by_token):
        while (message := await connection.receive_output(5))["type"] == "websocket.send":
            assert "tick" in message["text"]
        assert message == {"type": "websocket.close", "code": CLOSE_UNAUTHORIZED}


TOPICS = ("cluster", "job:{job}", f"job:{{job}}/vertex:{rows.SOURCE}", "job:{job}/operators", "preview:{preview}")


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("topic", TOPICS)
async def test_each_role_sees_the_topics_that_it_may(
    connect: Connect, cookie: tuple[bytes, bytes], alice: User, job: Job, role: Role, topic: str
) -> None:
    await database_sync_to_async(set_role)(alice, role)
    connection = await connect(ORIGIN, cookie)
    topic = topic.format(job=job.id, preview=await asyncio.to_thread(preview_of, alice))
    await connection.send_json({"type": "subscribe", "topic": topic})
    is_refused = topic.startswith("preview:") and role < Role.DEVELOPER
    assert (await receive(connection, "error" if is_refused else "snapshot"))["topic"] == topic


async def test_a_preview_is_its_owners_alone(connect: Connect, cookie: tuple[bytes, bytes], alice: User) -> None:
    await database_sync_to_async(set_role)(alice, Role.ADMIN)
    somebody = await database_sync_to_async(User.objects.create_user)("somebody")
    connection = await connect(ORIGIN, cookie)
    await connection.send_json(
        {"type": "subscribe", "topic": f"preview:{await asyncio.to_thread(preview_of, somebody)}"}
    )
    assert (await receive(connection, "error"))["message"].endswith("not found")


async def test_who_is_developer_no_more_sees_no_more_of_a_preview(
    connect: Connect, cookie: tuple[bytes, bytes], alice: User, fast: None
) -> None:
    await database_sync_to_async(set_role)(alice, Role.DEVELOPER)
    topic = f"preview:{await asyncio.to_thread(preview_of, alice)}"
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": topic})
    await receive(connection, "snapshot")
    await database_sync_to_async(set_role)(alice, Role.VIEWER)
    assert (await receive(connection, "gone"))["topic"] == topic


async def test_a_page_that_has_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def send() -> None:
        raise ClientDisconnected

    await LiveConsumer()._ended_with(send())
    assert not caplog.records


async def test_reads_of_the_layer_have_no_timeout_of_their_own() -> None:
    """It would end quiet connections, and leave readers behind: see the settings."""
    layer: Any = get_channel_layer()
    assert layer.hosts[0]["socket_timeout"] is None


# --- topics -----------------------------------------------------------------------------------------------------------


async def test_a_subscription_begins_with_a_snapshot(connect: Connect, cookie: tuple[bytes, bytes], job: Job) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
    message = await receive(connection, "snapshot")
    assert message["topic"] == f"job:{job.id}"
    assert message["data"]["moving"]["figures"][rows.SOURCE][RECORDS_IN] == 400
    assert message["version"] == message["data"]["version"]
    await connection.send_json({"type": "subscribe", "topic": "cluster"})
    assert (await receive(connection, "snapshot"))["data"]["jobs"][job.id]["name"] == job.name


async def test_changes_follow_with_numbers_and_patches(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None
) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
    version = (await receive(connection, "snapshot"))["version"]
    await publish(job, version=version + 5, state="CANCELLING")
    change = await receive(connection, "change")
    assert (change["from"], change["version"]) == (version, version + 5)
    assert change["patch"]["moving"] == {"job": {"state": "CANCELLING"}}
    assert "static" not in change["patch"]
    await publish(job, version=version + 6, state="CANCELED")
    change = await receive(connection, "change")
    assert (change["from"], change["version"]) == (version + 5, version + 6)
    assert change["patch"]["moving"] == {"job": {"state": "CANCELED"}}


async def test_many_changes_become_few_messages(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None
) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
    version = (await receive(connection, "snapshot"))["version"]
    for step in range(1, 51):
        await publish(job, version=version + step)
    seen: list[Any] = []
    while not seen or seen[-1]["version"] < version + 50:
        seen.append(await receive(connection, "change"))
    assert len(seen) < 40
    assert [m["from"] for m in seen] == [version, *(m["version"] for m in seen[:-1])]


async def test_subscribing_again_gives_a_new_snapshot(connect: Connect, cookie: tuple[bytes, bytes], job: Job) -> None:
    """A client repairs a gap in the versions this way."""
    connection = await connect(ORIGIN, cookie)
    for _ in range(2):
        await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
        await receive(connection, "snapshot")


async def test_after_unsubscribing_there_are_ticks_only(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None
) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
    version = (await receive(connection, "snapshot"))["version"]
    await connection.send_json({"type": "unsubscribe", "topic": f"job:{job.id}"})
    await connection.send_json({"type": "ping"})
    await receive(connection, "pong")
    await publish(job, version=version + 1)
    for _ in range(2):
        await receive(connection, "tick")


async def test_a_lost_hint_costs_time_only(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace(between_changes_s=0.05, tick_s=0.1)
    monkeypatch.setattr(LiveConsumer.__init__, "__defaults__", (pace,))
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
    version = (await receive(connection, "snapshot"))["version"]
    document = {**(job.document or {}), "version": version + 1}
    await asyncio.to_thread(bus_contents.put_document, bus.JOB_KEY.format(job.id), document)
    assert (await receive(connection, "change"))["version"] == version + 1


async def test_a_tick_delays_no_change(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes of a topic have their pace; what is read for a tick, and sends none, does not count."""
    monkeypatch.setattr(LiveConsumer.__init__, "__defaults__", (Pace(between_changes_s=60.0, tick_s=0.05),))
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
    await receive(connection, "snapshot")
    for _ in range(3):
        await receive(connection, "tick")


async def test_unknown_jobs_and_topics_are_errors(connect: Connect, cookie: tuple[bytes, bytes]) -> None:
    connection = await connect(ORIGIN, cookie)
    for topic in ("job:" + "f" * 32, "job:zz", "jobs", 7):
        await connection.send_json({"type": "subscribe", "topic": topic})
        message = await receive(connection, "error")
        assert message["topic"] == str(topic) and message["message"]


async def test_a_change_of_a_large_job_is_small_and_its_subtasks_and_operators_are_topics_of_their_own(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None
) -> None:
    """Every figure of 50 vertices with 8 subtasks each, of all edges and operators has moved."""
    large, random = RunningJob(50, 8), Random(7)
    version = (job.document or {})["version"]

    async def move(after_ms: int) -> None:
        await publish(job, **large.running(after_ms, random) | {"id": job.id, "version": version + after_ms})

    await move(500)
    connection = await connect(ORIGIN, cookie)
    vertex_topic = f"job:{job.id}/vertex:{large.vertices[7]}"
    operators_topic = f"job:{job.id}/operators"
    for topic in (f"job:{job.id}", vertex_topic, operators_topic):
        await connection.send_json({"type": "subscribe", "topic": topic})
        assert (await receive(connection, "snapshot"))["topic"] == topic
    await move(1_000)
    frames = {}
    for _ in range(3):
        change = await receive(connection, "change")
        frames[change["topic"]] = change
    sizes = {topic: len(json.dumps(frame, separators=(",", ":"))) for topic, frame in frames.items()}
    moving = frames[f"job:{job.id}"]["patch"]["moving"]
    assert set(moving["figures"]) == set(large.vertices)
    assert set(moving["edges"]) == {str(edge.edge_id) for edge in large.graph.edges}
    assert sizes[f"job:{job.id}"] <= 12_000
    assert set(frames[vertex_topic]["patch"]["figures"]) == {str(index) for index in range(8)}
    assert sizes[vertex_topic] <= 2_000
    assert len(frames[operators_topic]["patch"]["figures"]) == 100
    assert sizes[operators_topic] <= 12_000


async def test_a_change_of_forty_jobs_is_small(connect: Connect, cookie: tuple[bytes, bytes], fast: None) -> None:
    """All figures of forty jobs have moved, and a TaskManager has sent a heartbeat; 100 jobs have ended."""
    running, random = [RunningJob(6, 4) for _ in range(40)], Random(7)
    ended = [RunningJob(6, 4).row.id for _ in range(100)]

    async def move(after_ms: int) -> None:
        told = [job.running(after_ms, random) for job in running]
        entries = [job_entry(document) for document in told]
        done = [job_entry(told[0] | {"id": job_id, "state": "FINISHED", "end_time": NOW}) for job_id in ended]
        taskmanager = rows.taskmanager_entry(NOW + after_ms)
        document = cluster_document([taskmanager], [*entries, *done], NOW + after_ms, NOW + after_ms)
        await asyncio.to_thread(bus_contents.put_document, bus.CLUSTER_KEY, document)
        await hint("cluster", NOW + after_ms)

    # five seconds are enough for a verdict
    for second in range(5):
        await move(1_000 * second)
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": "cluster"})
    assert len((await receive(connection, "snapshot"))["data"]["jobs"]) == 140
    await move(6_000)
    change = await receive(connection, "change")
    assert set(change["patch"]["jobs"]) == {job.row.id for job in running}
    assert all("figures" in patch for patch in change["patch"]["jobs"].values())
    assert len(json.dumps(change, separators=(",", ":"))) <= 4_000


async def test_a_closed_vertex_takes_no_hints_from_its_job(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are in one group of the channel layer: it is left with the last of them. No tick stands in for a hint."""
    monkeypatch.setattr(LiveConsumer.__init__, "__defaults__", (Pace(between_changes_s=0.05, tick_s=60.0),))
    connection = await connect(ORIGIN, cookie)
    vertex_topic = f"job:{job.id}/vertex:{rows.SINK}"
    for topic in (f"job:{job.id}", vertex_topic):
        await connection.send_json({"type": "subscribe", "topic": topic})
        version = (await receive(connection, "snapshot"))["version"]
    await connection.send_json({"type": "unsubscribe", "topic": vertex_topic})
    await connection.send_json({"type": "ping"})
    await receive(connection, "pong")
    await publish(job, version=version + 1)
    assert (await receive(connection, "change"))["topic"] == f"job:{job.id}"


async def test_a_vertex_that_the_job_does_not_have_is_an_error(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job
) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}/vertex:{'f' * 32}"})
    assert "no vertex" in (await receive(connection, "error"))["message"]


async def test_twenty_tabs_share_one_read_and_one_document(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_anew = documents._read

    def counted(source: str) -> Any:
        read.append(source)
        return read_anew(source)

    monkeypatch.setattr(documents, "_read", counted)
    topics = [f"job:{job.id}", f"job:{job.id}/vertex:{rows.SINK}"]
    tabs = [await connect(ORIGIN, cookie) for _ in range(20)]
    for tab in tabs:
        for topic in topics:
            await tab.send_json({"type": "subscribe", "topic": topic})
            version = (await receive(tab, "snapshot"))["version"]
    read.clear()
    await publish(job, version=version + 1, state="CANCELLING")
    for tab in tabs:
        told = {(change := await receive(tab, "change"))["topic"]: change["version"] for _ in topics}
        assert told == dict.fromkeys(topics, version + 1)
    kept = documents._kept[topics[0]]
    assert set(kept.by_topic) == set(topics) and kept.version == version + 1
    # by the hint, and perhaps by a tick meanwhile
    assert len(read) <= 3


async def followed(connection: WebSocket, job: Job, browser: Client, **query: Any) -> str:
    """Follow the log of a job from its end on, under the name "1"; returns the cursor."""
    answer = await database_sync_to_async(browser.get)(f"/api/v1/jobs/{job.id}/logs/search")
    cursor: str = answer.json()["follow"]
    await follow(connection, job, cursor=cursor, **query)
    return cursor


async def follow(connection: WebSocket, job: Job, **query: Any) -> None:
    await connection.send_json({"type": "follow", "id": "1", "job": job.id, "query": query})


def texts(part: dict[str, Any]) -> list[str]:
    return [entry["text"] for entry in part["part"]["entries"]]


async def test_a_log_is_followed_part_by_part_as_the_page_takes_them(
    connect: Connect, cookie: tuple[bytes, bytes], browser: Client, fast: None, job: Job, running_log: RunningLog
) -> None:
    await running_log.add("before")
    connection = await connect(ORIGIN, cookie)
    await followed(connection, job, browser)
    await running_log.add("first")
    part = await receive(connection, "log")
    assert (part["id"], texts(part)) == ("1", ["first"])
    await running_log.add("second", "third")
    # ticks only: the page has not taken the part
    for _ in range(3):
        assert (await connection.receive_json())["type"] == "tick"
    await connection.send_json({"type": "took", "id": "1"})
    assert texts(await receive(connection, "log")) == ["second", "third"]
    await connection.send_json({"type": "unfollow", "id": "1"})
    await connection.send_json({"type": "took", "id": "1"})
    await running_log.add("fourth")
    for _ in range(3):
        assert (await connection.receive_json())["type"] == "tick"
    again = await connect(ORIGIN, cookie)
    await follow(again, job, cursor=part["part"]["cursor"], q="IR")
    assert texts(await receive(again, "log")) == ["third"]


async def test_a_page_that_is_far_behind_gets_all_in_bounded_parts(
    connect: Connect,
    cookie: tuple[bytes, bytes],
    browser: Client,
    fast: None,
    job: Job,
    running_log: RunningLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backend.live.log_follow.PART_ENTRIES", 3)
    connection = await connect(ORIGIN, cookie)
    await followed(connection, job, browser)
    await running_log.add(*map(str, range(8)))
    parts: list[list[str]] = []
    while sum(len(part) for part in parts) < 8:
        parts.append(texts(await receive(connection, "log")))
        await connection.send_json({"type": "took", "id": "1"})
    assert parts == [["0", "1", "2"], ["3", "4", "5"], ["6", "7"]]


async def test_followers_end_with_their_connection(
    connect: Connect, cookie: tuple[bytes, bytes], browser: Client, fast: None, job: Job, running_log: RunningLog
) -> None:
    def followers() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("follow ")]

    connection = await connect(ORIGIN, cookie)
    await followed(connection, job, browser)
    await running_log.add("first")
    await receive(connection, "log")
    assert followers() == ["follow 1"]
    await connection.disconnect()
    assert followers() == []


@pytest.mark.parametrize(
    "query", [None, [], {}, {"q": "no cursor"}, {"cursor": ["x"]}, {"cursor": "nonsense"}, {"cursor": "x", "q": True}]
)
async def test_what_cannot_be_followed_is_told(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, home: Path, query: Any
) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "follow", "id": "1", "job": job.id, "query": query})
    ended = await receive(connection, "log-ended")
    assert ended["id"] == "1" and ended["message"]
    await connection.send_json({"type": "follow", "id": "2", "job": "f" * 32, "query": {"cursor": "x"}})
    assert "f" * 32 in (await receive(connection, "log-ended"))["message"]


async def test_only_so_many_logs_are_followed(
    connect: Connect, cookie: tuple[bytes, bytes], browser: Client, job: Job, home: Path
) -> None:
    connection = await connect(ORIGIN, cookie)
    cursor = await followed(connection, job, browser)
    for name in "2345":
        await connection.send_json({"type": "follow", "id": name, "job": job.id, "query": {"cursor": cursor}})
    ended = await receive(connection, "log-ended")
    assert (ended["id"], ended["message"]) == ("5", "At most 4 logs can be followed.")


async def test_a_job_that_is_deleted_is_gone(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None
) -> None:
    connection = await connect(ORIGIN, cookie)
    topic = f"job:{job.id}"
    await connection.send_json({"type": "subscribe", "topic": topic})
    version = (await receive(connection, "snapshot"))["version"]
    await database_sync_to_async(Job.objects.all().delete)()
    await hint(topic, version + 1)
    assert await receive(connection, "gone") == {"type": "gone", "topic": topic}


# --- how old it is ----------------------------------------------------------------------------------------------------


async def _until(connection: WebSocket, topic: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first freshness of a topic, in a message of any kind, of which that holds."""
    async with asyncio.timeout(5):
        while True:
            message = await connection.receive_json()
            told = message["freshness"].get(topic) if message["type"] == "tick" else message["freshness"]
            if told is not None and holds(told):
                return dict(told)


async def test_ticks_tell_of_a_jobmanager_that_is_silent(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None, bus_redis: redis.Redis
) -> None:
    topic = f"job:{job.id}"
    await publish(job)
    await beat()
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": topic})
    live = await _until(connection, topic, lambda told: True)
    assert live["source"] == "live" and not live["is_stale"] and live["age_ms"] < 3_000
    # twelve seconds without a beat, by the clock of Redis
    await asyncio.to_thread(bus_contents.beat, age_ms=12_000)
    stale = await _until(connection, topic, lambda told: told["is_stale"])
    assert stale["reason"] == "The JobManager has sent no heartbeat for 12 s."
    await beat()
    assert (await _until(connection, topic, lambda told: not told["is_stale"]))["age_ms"] < 3_000


async def test_a_frozen_redis_is_told_and_what_was_read_before_stays(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None, frozen: Callable[[], Any]
) -> None:
    topic = f"job:{job.id}"
    published = await publish(job, version=(job.document or {})["version"] + 5)
    await beat()
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": topic})
    assert (await receive(connection, "snapshot"))["version"] == published["version"]
    with frozen():
        stale = await _until(connection, topic, lambda told: told["is_stale"])
        assert stale["source"] == "kept" and stale["reason"].startswith("Redis does not answer.")
        # what changes now is in the database only
        await database_sync_to_async(_fail)(job, published["version"] + 1)
        assert (await receive(connection, "change"))["patch"]["moving"]["job"]["state"] == "FAILING"
    assert (await _until(connection, topic, lambda told: told["source"] == "live"))["age_ms"] is not None


async def test_a_topic_can_be_subscribed_to_while_redis_is_frozen(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, fast: None, frozen: Callable[[], Any]
) -> None:
    connection = await connect(ORIGIN, cookie)
    with frozen():
        await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
        snapshot = await receive(connection, "snapshot")
        assert snapshot["data"]["moving"]["job"]["state"] == "RUNNING" and snapshot["freshness"]["source"] == "database"
        assert snapshot["freshness"]["is_stale"]
    version = snapshot["version"]
    await publish(job, version=version + 1)
    assert (await receive(connection, "change"))["version"] == version + 1


def _fail(job: Job, version: int) -> None:
    """Save a failed job as the jobmanager does on a change of state."""
    Job.objects.filter(id=job.id).update(
        state="FAILING", document={**(job.document or {}), "state": "FAILING", "version": version}
    )


# --- clients that behave badly ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "{}", '{"type": "shutdown"}', '{"type": ["ping"]}'])
async def test_messages_that_make_no_sense_are_answered_with_an_error(
    connect: Connect, cookie: tuple[bytes, bytes], text: str
) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_text(text)
    await receive(connection, "error")
    await connection.send_json({"type": "ping"})
    await receive(connection, "pong")


async def _close_code(connection: WebSocket) -> int:
    while (message := await connection.receive_output(5))["type"] == "websocket.send":
        pass
    return int(message["code"])


@pytest.mark.parametrize("text", ["[" * 8000, '{"type":' * 2000, "{", "[]", "null", '{"type": ["ping"]}', "NaN"])
async def test_what_is_no_message_is_answered_and_ends_nothing(
    connect: Connect, cookie: tuple[bytes, bytes], text: str
) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_text(text)
    assert "not understood" in (await receive(connection, "error"))["message"]
    await connection.send_json({"type": "ping"})
    assert (await receive(connection, "pong"))["now"] > 0


async def test_large_messages_end_the_connection(connect: Connect, cookie: tuple[bytes, bytes]) -> None:
    connection = await connect(ORIGIN, cookie)
    await connection.send_text("x" * (consumers.MAX_MESSAGE_BYTES + 1))
    assert await _close_code(connection) == consumers.CLOSE_TOO_BIG


async def test_a_flood_of_messages_ends_the_connection(connect: Connect, cookie: tuple[bytes, bytes]) -> None:
    connection = await connect(ORIGIN, cookie)
    for _ in range(60):
        await connection.send_json({"type": "ping"})
    assert await _close_code(connection) == consumers.CLOSE_POLICY


async def test_topics_are_limited(
    connect: Connect, cookie: tuple[bytes, bytes], job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "MAX_TOPICS", 1)
    connection = await connect(ORIGIN, cookie)
    await connection.send_json({"type": "subscribe", "topic": f"job:{job.id}"})
    await receive(connection, "snapshot")
    await connection.send_json({"type": "subscribe", "topic": "cluster"})
    assert "At most 1" in (await receive(connection, "error"))["message"]


async def test_a_client_that_takes_nothing_is_dropped(
    cookie: tuple[bytes, bytes], fast: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The send does not return, as with a full socket."""
    incoming: asyncio.Queue[Any] = asyncio.Queue()
    incoming.put_nowait({"type": "websocket.connect"})
    sent = []

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if message["type"] == "websocket.send":
            await asyncio.Event().wait()

    scope: Any = {"type": "websocket", "path": "/ws/live", "headers": [ORIGIN, cookie], "subprotocols": [SUBPROTOCOL]}
    serving = asyncio.ensure_future(websocket_application(scope, incoming.get, send))
    done, _ = await asyncio.wait([serving], timeout=5)
    assert done == {serving}
    assert sent == ["websocket.accept", "websocket.send"]
    assert "dropped" in caplog.text

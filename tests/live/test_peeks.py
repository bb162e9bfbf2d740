"""Peeks over REST, from the request to the rows: a real job, a real Redis, and between them what a leader does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster import bus, services
from backend.cluster.events import PeekEnded, PeekWanted
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.models import Job
from backend.cluster.peek_document import PeekDocuments
from backend.cluster.publisher import Publisher
from runtime.common import Types
from runtime.connectors import BlackHoleSink
from runtime.core.ids import OperatorId, operator_id_of
from runtime.graph.codec import job_graph_to_json
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.peeks import NumberedElement, PeekRequest, PeekView
from runtime.task.late_samples import LateSamples
from runtime.task.messages import PeekedElement
from runtime.testing.clock import ManualClock
from tests.datastream.running import environment
from tests.dispatcher import rows
from tests.execution.jobs import cluster_of, step_until, ticks
from tests.support.bus_contents import take_events

pytestmark = pytest.mark.usefixtures("bus_redis")
ROW = Types.ROW_NAMED(["n", "token"], [Types.LONG(), Types.STRING()])


def with_token(value: int) -> tuple[int, str]:
    return value, "hush"


class Cluster:
    """A job that runs, and a leader that does with it what users ask for."""

    def __init__(self) -> None:
        env = environment(1)
        env_rows = ticks(env, 100.0).map(with_token, ROW).name("with token")
        env_rows.rebalance().map(lambda row: row, ROW).name("behind").sink_to(BlackHoleSink())
        graph = env.create_job_graph("job")
        self.clock = ManualClock(1_000_000)
        self.cluster = cluster_of(env, self.clock)
        self.job = services.submit_job(job_graph_to_json(graph), None, [], graph.configuration, None)
        self.edge = str(graph.edges[0].edge_id)
        self.uid = next(o.uid for v in graph.vertices for o in v.operators if o.name == "with token")
        take_events()
        self.bus = RedisLeaderBus(1)
        self.publisher = Publisher(self.bus, self.clock, lambda: True)
        self.runner: Any = SimpleNamespace(job=self.job, peeks=self.cluster.driver.peeks.views)
        step_until(self.cluster, lambda: self.cluster.driver.status().state is JobState.RUNNING)

    def late_samples(self) -> LateSamples:
        """Return the samples of the operator behind the source."""
        slots: Any = self.cluster._slots
        for slot, _ in slots.slots.values():
            for task in slot._tasks.all:
                samples = task.late_samples(operator_id_of(self.uid))
                if samples is not None:
                    return samples
        raise LookupError(self.uid)

    def lead(self, ms: int = 2_000) -> list[Any]:
        """Do what was asked for, and go on for a time."""
        events = [received.event for received in self.bus.take_events(0.1)]
        for event in events:
            if isinstance(event, PeekWanted):
                edge = event.edge if isinstance(event.edge, int) else OperatorId(event.edge)
                self.cluster.driver.peek(
                    PeekRequest(event.peek, edge, event.subtasks, event.rows, 30_000, event.of_late)
                )
            elif isinstance(event, PeekEnded):
                self.cluster.driver.peeks.stop(event.peek)
        until_ms = self.clock.monotonic_ms() + ms
        step_until(self.cluster, lambda: self.clock.monotonic_ms() >= until_ms)
        self.publisher.peeks(self.runner)
        return events


@pytest.fixture
def leader(db: None) -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.bus.close()


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


@pytest.mark.parametrize("is_chained", [False, True])
def test_rows_come_from_a_running_job(api: APIClient, leader: Cluster, is_chained: bool) -> None:
    route = f"/api/v1/jobs/{leader.job.id}/peeks"
    begun = api.post(route, {"operator": leader.uid} if is_chained else {"edge": leader.edge}, format="json")
    assert begun.status_code == 201, begun.json()
    peek = f"{route}/{begun.json()['id']}"
    assert api.get(peek).json() == {"elements": [], "rows": 0, "dropped": 0, "subtasks": [], "problem": ""}
    leader.lead()
    seen = api.get(peek).json()
    values = [element["value"] for element in seen["elements"] if element["kind"] == "row"]
    assert 20 <= len(values) <= 45 and seen["rows"] > len(values)
    assert (seen["problem"], seen["subtasks"]) == ("", [0])
    if not is_chained:
        # what looks like a secret never left the slot
        assert all(set(value) == {"n", "token"} and value["token"] == "******" for value in values)
    last = seen["elements"][-1]["number"]
    leader.lead()
    later = api.get(f"{peek}?after={last}").json()["elements"]
    assert later and all(element["number"] > last for element in later)
    assert api.delete(peek).status_code == 200
    assert PeekEnded(leader.job.id, begun.json()["id"]) in leader.lead()
    assert leader.cluster.driver.peeks.views() == []
    assert api.get(peek).status_code == 404


def test_late_records_of_an_operator_come_with_their_watermark(api: APIClient, leader: Cluster) -> None:
    route = f"/api/v1/jobs/{leader.job.id}/peeks"
    begun = api.post(route, {"late": leader.uid}, format="json")
    assert begun.status_code == 201, begun.json()
    samples = leader.late_samples()
    samples.dropped(3)
    samples.take({"token": "hunter2"}, None, 5_000, 9_000)
    leader.lead()
    seen = api.get(f"{route}/{begun.json()['id']}").json()
    [element] = seen["elements"]
    assert (element["kind"], element["timestamp"], element["watermark"]) == ("late", 5_000, 9_000)
    assert element["value"] == {"token": "******"} and (seen["rows"], seen["problem"]) == (3, "")
    event = AuditEvent.objects.get(action="POST api/v1/jobs/<str:job_id>/peeks")
    assert event.detail == {"late": leader.uid}


def test_a_peek_lives_as_long_as_somebody_looks(api: APIClient, job: Job, bus_redis: redis.Redis) -> None:
    begun = api.post(f"/api/v1/jobs/{job.id}/peeks", {"edge": "0", "rows": 5, "subtasks": [1]}, format="json").json()
    wanted = {"type": "peek", "peek": begun["id"], "job": job.id, "edge": 0, "subtasks": [1], "rows": 5}
    assert take_events() == [wanted]
    key = bus.PEEK_LEASE_KEY.format(begun["id"])
    peek = f"/api/v1/jobs/{job.id}/peeks/{begun['id']}"
    # the leader is not told with every look
    assert api.get(peek).status_code == 200 and take_events() == []
    bus_redis.pexpire(key, 24_000)
    assert api.get(peek).status_code == 200 and take_events() == [wanted]
    assert bus_redis.pttl(key) > 29_000
    bus_redis.pexpire(key, 1)
    time.sleep(0.01)
    assert api.get(peek).status_code == 404 and take_events() == []
    assert api.delete(peek).status_code == 404 and take_events() == []


def test_what_was_seen_goes_with_the_lease(api: APIClient, leader: Cluster, bus_redis: redis.Redis) -> None:
    begun = api.post(f"/api/v1/jobs/{leader.job.id}/peeks", {"edge": leader.edge}, format="json").json()
    leader.lead(10_000)
    key = bus.PEEK_KEY.format(begun["id"])
    assert 0 < bus_redis.ttl(key) <= 20
    api.delete(f"/api/v1/jobs/{leader.job.id}/peeks/{begun['id']}")
    assert not bus_redis.exists(key)


def test_a_leader_that_tells_nothing_is_named(api: APIClient, job: Job, bus_redis: redis.Redis) -> None:
    peek = api.post(f"/api/v1/jobs/{job.id}/peeks", {"edge": "0"}, format="json").json()["id"]
    route, key = f"/api/v1/jobs/{job.id}/peeks/{peek}", bus.PEEK_LEASE_KEY.format(peek)
    assert api.get(route).json()["problem"] == ""
    lease = json.loads(bus_redis.get(key) or "")
    bus_redis.set(key, json.dumps(lease | {"begun": lease["begun"] - 10_000}), ex=30)
    assert api.get(route).json()["problem"] == "the JobManager has told nothing of this peek yet"


def test_a_peek_ends_with_its_job(api: APIClient, job: Job, bus_redis: redis.Redis) -> None:
    peek = api.post(f"/api/v1/jobs/{job.id}/peeks", {"edge": "0"}, format="json").json()["id"]
    route = f"/api/v1/jobs/{job.id}/peeks/{peek}"
    Job.objects.filter(id=job.id).update(state="FAILED")
    bus_redis.pexpire(bus.PEEK_LEASE_KEY.format(peek), 24_000)
    answer = api.get(route)
    assert (answer.status_code, answer.json()["errors"][0]["message"]) == (404, "The peek has ended with its job.")
    assert not bus_redis.exists(bus.PEEK_LEASE_KEY.format(peek))
    assert api.post(f"/api/v1/jobs/{job.id}/peeks", {"edge": "0"}, format="json").status_code == 409


def test_elements_of_a_leader_whose_clock_is_behind_are_seen(
    api: APIClient, leader: Cluster, bus_redis: redis.Redis
) -> None:
    route = f"/api/v1/jobs/{leader.job.id}/peeks"
    peek = f"{route}/{api.post(route, {'edge': leader.edge}, format='json').json()['id']}"
    leader.lead()
    known = api.get(peek).json()["elements"]
    later = known[-1]["number"] + 60_000
    assert api.get(f"{peek}?after={later}").json()["elements"] == known


def test_beginning_and_end_are_audited_and_looks_are_not(api: APIClient, job: Job) -> None:
    before = AuditEvent.objects.count()
    begun = api.post(f"/api/v1/jobs/{job.id}/peeks", {"operator": "uid-2"}, format="json").json()
    for _ in range(3):
        api.get(f"/api/v1/jobs/{job.id}/peeks/{begun['id']}")
    api.delete(f"/api/v1/jobs/{job.id}/peeks/{begun['id']}")
    begin, end = AuditEvent.objects.order_by("id")[before:]
    assert (begin.action, begin.detail) == ("POST api/v1/jobs/<str:job_id>/peeks", {"edge": "uid-2", "rows": 20})
    assert end.action == "DELETE api/v1/jobs/<str:job_id>/peeks/<str:peek_id>"


def test_a_peek_is_its_users_and_its_jobs(api: APIClient, job: Job, alice: User) -> None:
    lease = {"job": job.id, "edge": 0, "subtasks": [], "rows": 20}
    services.begin_peek("a" * 32, lease, alice.get_username())
    services.begin_peek("b" * 32, lease, "somebody")
    services.begin_peek("c" * 32, lease | {"job": "0" * 32}, alice.get_username())
    found = [api.get(f"/api/v1/jobs/{job.id}/peeks/{name * 32}").status_code for name in "abcd"]
    assert found == [200, 404, 404, 404]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"edge": "7"}, 404),
        ({"operator": "uid-1"}, 404),
        ({"operator": "nobody"}, 404),
        ({"operator": ["uid-2"]}, 404),
        ({}, 400),
        ([], 400),
        ({"edge": "0", "operator": "uid-2"}, 400),
        ({"late": "nobody"}, 404),
        ({"late": "uid-2", "operator": "uid-2"}, 400),
        ({"edge": "0", "rows": 21}, 400),
        ({"edge": "0", "rows": 0}, 400),
        ({"edge": "0", "rows": True}, 400),
        ({"edge": "0", "subtasks": [-1]}, 400),
        ({"edge": "0", "subtasks": "all"}, 400),
        ({"edge": "0", "subtasks": [0] * 1_001}, 400),
    ],
)
def test_nonsense_is_refused(api: APIClient, job: Job, body: Any, status: int) -> None:
    take_events()
    assert api.post(f"/api/v1/jobs/{job.id}/peeks", body, format="json").status_code == status
    assert take_events() == []


@pytest.mark.parametrize("after", ["x", "-1", "1" * 17, "²"])
def test_a_position_is_a_number(api: APIClient, job: Job, alice: User, after: str) -> None:
    wanted = {"job": job.id, "edge": 0, "subtasks": [], "rows": 20}
    services.begin_peek("a" * 32, wanted, alice.get_username())
    assert api.get(f"/api/v1/jobs/{job.id}/peeks/{'a' * 32}?after={after}").status_code == 400


def test_what_a_slot_says_is_not_taken_for_granted() -> None:
    def row(text: str, timestamp: int | None = None) -> PeekedElement:
        return PeekedElement("row", 0, 7, timestamp, None, text, "+I", False)

    texts = ['{"url":"http://a:b@c/"}', "no json", "[" * 100_000, '"\\ud800"']
    elements = [NumberedElement(5 + n, row(text, 2**63 - 1)) for n, text in enumerate(texts)]
    document = PeekDocuments().of(PeekView("p", 1, elements, 10**30, 1, [0], "", 1_000.0))
    assert [element["value"] for element in document["elements"]] == [{"url": "http://******@c/"}, "\ufffd"]
    assert document["dropped"] == 3 and document["rows"] == 2**53 - 1
    assert document["elements"][0]["timestamp"] == "max"


def row_of(text: str) -> PeekedElement:
    return PeekedElement("row", 0, 10**300, None, None, text, "+I", False)


def view_of(elements: list[PeekedElement], first: int = 1) -> PeekView:
    return PeekView("p", 1, [NumberedElement(first + n, each) for n, each in enumerate(elements)], 1, 0, [0], "", 1.0)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "[1e999]", "[" * 60 + "]" * 60])
def test_what_no_page_could_read_is_dropped(text: str) -> None:
    document = PeekDocuments().of(view_of([row_of(text), row_of("1")]))
    assert ([element["value"] for element in document["elements"]], document["dropped"]) == ([1], 1)
    assert document["elements"][0]["passed_at"] == 2**53 - 1


def test_secrets_in_the_keys_of_maps_are_hidden() -> None:
    document = PeekDocuments().of(view_of([row_of('{"http://a:b@c/":1}')]))
    assert document["elements"][0]["value"] == {"http://******@c/": 1}


def test_each_element_is_read_once() -> None:
    documents, elements = PeekDocuments(), [row_of(str(n)) for n in range(4)]
    first = documents.of(view_of(elements[:3]))
    second = documents.of(view_of(elements[1:], first=2))
    assert [element["value"] for element in second["elements"]] == [1, 2, 3]
    assert [element is first["elements"][n + 1] for n, element in enumerate(second["elements"][:2])] == [True, True]
    # a number that another leader gives to another element
    assert PeekDocuments().of(view_of([row_of("9")]))["elements"][0]["value"] == 9
    assert documents.of(view_of([row_of("9")], first=2))["elements"][0]["value"] == 9
    documents.keep([])
    assert documents._known == {}

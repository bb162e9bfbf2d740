"""A whole cluster after many short jobs and restarts: rows, files, keys of Redis and documents return to bounds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoDbBlocker, Settings

from backend.accounts.services import create_login_link, create_token, ensure_admin
from backend.cluster import bus, cluster_document, job_store, log_retention, publisher, services
from backend.cluster.job_logs import job_log_directory
from backend.cluster.job_store import KEPT_EXCEPTIONS
from backend.cluster.models import Job, JobException, Operation
from runtime.common.configuration import Configuration
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment
from runtime.graph.codec import job_graph_to_json
from tests.cluster.threaded_cluster import SLOTS, ThreadedCluster, threaded_cluster

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEPT_LOGS = 3
WORKER = re.compile(r"taskmanager-[^@]*@[^.]*")
#: what is meant to grow, as docs/recovery.md says
UNBOUNDED = {"audit.AuditEvent"}


class Bounds(NamedTuple):
    """How much a cluster keeps, and how much it has to do."""

    kept_jobs: int
    kept_taskmanagers: int
    few_jobs: int
    """After which all bounds are reached."""
    jobs: int
    restarts: int


SMALL = Bounds(kept_jobs=8, kept_taskmanagers=2, few_jobs=12, jobs=24, restarts=8)
#: with the smallest bounds that a cluster takes
REAL = Bounds(kept_jobs=100, kept_taskmanagers=100, few_jobs=120, jobs=500, restarts=200)
BOUNDS = [
    pytest.param(SMALL, id="few"),
    pytest.param(REAL, id="many", marks=pytest.mark.timeout(1200)),
]


class Measure(NamedTuple):
    """How much there is."""

    rows: dict[str, int]
    """Of each model."""
    files: int
    bytes: int
    """Of all files."""
    keys: int
    lasting_keys: Counter[str]
    """Those without an end, by names without those of workers; of sets with the number of elements."""
    cluster_bytes: int
    """Of the cluster's document."""

    def check_is_no_more_than(self, other: Measure) -> None:
        """Compare with what there was before."""
        grown = {label: number for label, number in self.rows.items() if number > other.rows[label]}
        assert not grown.keys() - UNBOUNDED, {label: (other.rows[label], number) for label, number in grown.items()}
        # a log has a line more or less
        assert self.files <= other.files and self.bytes <= 1.05 * other.bytes + 1024, (self, other)
        assert self.keys <= other.keys and self.lasting_keys <= other.lasting_keys, (self, other)
        assert self.cluster_bytes <= 1.05 * other.cluster_bytes


def measured(home: Path) -> Measure:
    models = [model for model in apps.get_models() if not model._meta.proxy]
    files = [path for path in home.rglob("*") if path.is_file()]
    store = bus.client()
    keys = list(store.scan_iter(count=1000))
    lasting: Counter[str] = Counter()
    for key in keys:
        if store.pttl(key) < 0:
            lasting[WORKER.sub("", key)] += 1 + (store.scard(key) if store.type(key) == "set" else 0)
    return Measure(
        {model._meta.label: model._default_manager.count() for model in models},
        len(files),
        sum(path.stat().st_size for path in files),
        len(keys),
        lasting,
        size_of(services.cluster_document()),
    )


def size_of(document: dict[str, Any]) -> int:
    return len(json.dumps(document))


def short(nth: int, *, is_stream: bool, checkpoints: str = "200 ms") -> dict[str, Any]:
    """The graph of a job that ends by itself, or of one that goes on and takes checkpoints."""
    configuration = Configuration()
    if is_stream:
        configuration.set_string("execution.checkpointing.interval", checkpoints)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    if is_stream:
        source = DataGeneratorSource(lambda index: index, rows_per_second=100)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    else:
        numbers = env.from_collection([1, 2, 3])
    totals = numbers.key_by(lambda number: number % 2).reduce(lambda a, b: a + b)
    # a stream goes on until its savepoint is there: what it prints must not depend on how long that takes
    totals.filter(lambda total: total < 5).print()
    return job_graph_to_json(env.create_job_graph(f"short {nth}"))


def failing(restarts: int) -> dict[str, Any]:
    """The graph of a job that prints, and fails, again and again."""

    def fail(number: int) -> int:
        if number == 3:
            raise RuntimeError("three " + "x" * 2_000)
        return number

    configuration = Configuration()
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", str(restarts))
    configuration.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.from_collection([1, 2, 3]).map(fail).print()
    return job_graph_to_json(env.create_job_graph("fails"))


class Restarted(NamedTuple):
    """Measures what is left of a job that was restarted."""

    document_bytes: int
    """Of its document, as readers get it and as it is in its row."""
    failures: int
    attempts: int
    """With logs."""
    keys: int
    """In Redis."""


class Usage:
    """Does what users do with a cluster for months."""

    def __init__(self, cluster: ThreadedCluster) -> None:
        self.cluster = cluster
        self.user = ensure_admin("a-token-of-the-tests-that-nobody-guesses")
        self._num_jobs = 0

    def submit(self, graph: dict[str, Any]) -> str:
        return str(services.submit_job(graph, None, [], {}, self.user).id)

    def run(self, number: int) -> None:
        """Run short jobs, as many at a time as there are slots."""
        for _ in range(0, number, SLOTS):
            stream = self.submit(short(self._num_jobs, is_stream=True))
            ending = [self.submit(short(self._num_jobs + nth, is_stream=False)) for nth in range(1, SLOTS)]
            self._num_jobs += SLOTS
            self._come_and_go()
            self._save_and_cancel(stream)
            self.cluster.until_ended([stream, *ending])
            self.cluster.replace_taskmanager()

    def _come_and_go(self) -> None:
        """Log in, and upload a program and delete it."""
        client = Client()
        client.force_login(self.user)
        create_token(self.user, f"script {self._num_jobs}", HOUR_MS)
        create_login_link(self.user)
        program = SimpleUploadedFile("program.py", b"print(1)\n", "text/x-python")
        uploaded = client.post("/v1/jars/upload", {"jarfile": program}, headers={"Sec-Fetch-Site": "same-origin"})
        assert uploaded.status_code == 200, uploaded.content
        name = uploaded.json()["filename"].rpartition("/")[2]
        assert client.delete(f"/v1/jars/{name}", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        assert client.get("/api/v1/cluster").status_code == 200

    def _save_and_cancel(self, stream: str) -> None:
        """Take a savepoint, cancel the job, and dispose of the savepoint."""
        job = services.get_job(stream)
        self.cluster.until(lambda: services.job_document(stream)["state"] == "RUNNING", "the stream runs")
        asked = services.request_operation(job, Operation.Kind.SAVEPOINT, {"cancel_job": False}, self.user)
        self.cluster.until(lambda: is_answered(asked), "the savepoint")
        services.request_cancel(job, self.user)
        self.cluster.until_ended([stream])
        asked.refresh_from_db()
        assert asked.result is not None and "location" in asked.result, asked.result
        gone = services.request_operation(None, Operation.Kind.DISPOSE, {"path": asked.result["location"]}, self.user)
        self.cluster.until(lambda: is_answered(gone), "the disposal")

    def restart(self, number: int) -> Restarted:
        """Run a job that fails so many times, and once more."""
        job_id = self.submit(failing(number))
        for times in range(1, number):
            # one by one: on a busy machine they take minutes together
            self.cluster.until(partial(has_restarted, job_id, times), f"restart {times}")
        self.cluster.until_ended([job_id])
        assert Job.objects.get(id=job_id).restarts == number
        logs = job_log_directory(job_id)
        self.cluster.until(lambda: len(list(logs.glob("attempt-*"))) <= KEPT_LOGS, "old logs are deleted")
        return Restarted(
            size_of(services.job_document(job_id)) + size_of(Job.objects.get(id=job_id).document or {}),
            JobException.objects.filter(job_id=job_id).count(),
            len(list(logs.glob("attempt-*"))),
            sum(job_id in key for key in bus.client().scan_iter(count=1000)),
        )

    def rest(self) -> None:
        """Let more than a month pass, in which nobody does anything."""
        for ms in (HOUR_MS, HOUR_MS, 2 * HOUR_MS, DAY_MS, DAY_MS, 8 * DAY_MS, 40 * DAY_MS, HOUR_MS, HOUR_MS, 60_000):
            self.cluster.pass_time(ms)
        logs = self.cluster.manager._logs
        self.cluster.until(lambda: logs._work.is_idle, "logs are looked at")


def has_restarted(job_id: str, times: int) -> bool:
    return Job.objects.filter(id=job_id, restarts__gte=times).exists()


def is_answered(operation: Operation) -> bool:
    operation.refresh_from_db()
    return operation.state == Operation.State.COMPLETED


@pytest.fixture(params=BOUNDS)
def bounds(request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Bounds:
    """Sets what the cluster keeps."""
    wanted: Bounds = request.param
    settings.TIDEMARK_KEPT_LOGS = KEPT_LOGS
    settings.TIDEMARK_KEPT_JOBS = wanted.kept_jobs
    for module in (cluster_document, publisher):
        monkeypatch.setattr(module, "MAX_ENDED_JOBS", wanted.kept_jobs)
    monkeypatch.setattr(job_store, "KEPT_TASKMANAGERS", wanted.kept_taskmanagers)
    return wanted


@pytest.fixture
def usage(
    bounds: Bounds, home: Path, live_redis: str, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Usage]:
    # slots in threads of one process write into the logs of all: what one of an old attempt wrote is found by a look
    monkeypatch.setattr(log_retention, "LOOK_MS", 10_000.0)
    with threaded_cluster(home, django_db_blocker, monkeypatch) as cluster:
        yield Usage(cluster)


def test_many_short_jobs_leave_as_much_as_a_few(usage: Usage, home: Path, bounds: Bounds) -> None:
    for _ in range(bounds.kept_taskmanagers):
        usage.cluster.replace_taskmanager()
    usage.run(bounds.few_jobs)
    busy = measured(home).cluster_bytes
    usage.rest()
    few = measured(home)
    assert few.rows["cluster.Job"] == bounds.kept_jobs
    usage.run(bounds.jobs - bounds.few_jobs)
    assert measured(home).cluster_bytes <= 1.05 * busy, "while all of them have just ended"
    usage.rest()
    measured(home).check_is_no_more_than(few)


def test_many_restarts_leave_as_much_as_a_few(usage: Usage, home: Path, bounds: Bounds) -> None:
    few, many = (usage.restart(number) for number in (bounds.restarts // 2, bounds.restarts))
    # a document names the last failures and changes of state
    if bounds is REAL:
        assert many.document_bytes <= 1.05 * few.document_bytes
    assert many.document_bytes <= 500_000
    assert many.failures == min(bounds.restarts + 1, KEPT_EXCEPTIONS)
    assert few.attempts == many.attempts == KEPT_LOGS
    assert many.keys <= few.keys

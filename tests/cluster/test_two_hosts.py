"""A job over two hosts: its tasks talk across the network, and it goes on with exact output when that was cut."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.postgres import PostgresServer
from tests.cluster.proving import RECOVERY_S, ProvingJob, answers
from tests.cluster.two_hosts import TwoHosts, two_hosts
from tests.support.hosts import why_no_hosts
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
#: on a loaded machine, two JVMs and their Pythons take minutes
START_TIMEOUT_S = 180.0
_PAUSE = threading.Event()
#: where each number is seen first, counted where the key of that host lives
BOTH_HOSTS = """
import socket

from runtime.common import Types
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection(list(range(2_000)), Types.INT()).rebalance()
pairs = numbers.map(lambda _: (socket.gethostname(), 1), Types.TUPLE([Types.STRING(), Types.INT()]))
sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
latest = {}
with sums.execute_and_collect() as found:
    for host, count in found:
        latest[host] = max(count, latest.get(host, 0))
for host, count in latest.items():
    print(host, count)
"""
RESTARTING = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    # a loaded machine keeps a process waiting for longer than the default
    "heartbeat.timeout": "15 s",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoHosts]:
    why = why_no_hosts()
    if why is not None:
        pytest.skip(why)
    if not PostgresServer.is_installed():
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    directory = Path(tempfile.mkdtemp(prefix="tidemark-hosts-"))
    try:
        with two_hosts(directory) as running:
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def database(cluster: TwoHosts) -> PostgresServer:
    """The one that the jobs of this module write to, with an empty table."""
    cluster.database.clear()
    return cluster.database


@contextmanager
def running_job(cluster: TwoHosts, directory: Path, database: PostgresServer, **options: str) -> Iterator[ProvingJob]:
    """The job that proves its output, once it runs on both hosts; a failure shows why it restarted, and logs."""
    job = ProvingJob(cluster, directory, database, RESTARTING | options)
    try:
        wait_until(lambda: answers(lambda: job.live()["state"] == "RUNNING"), START_TIMEOUT_S, "the job starts")
        job.wait_until_it_moves("the job runs")
        assert hosts_of(job) == {"alpha", "beta"}
        yield job
    except AssertionError:
        print(f"--- exceptions\n{job.live()['exceptions']}")
        for name in ("jobmanager", "taskmanager-alpha", "taskmanager-beta"):
            print(f"--- {name}\n{cluster.log(name)[-5000:]}")
        raise
    finally:
        cluster.network.heal()


def hosts_of(job: ProvingJob) -> set[str]:
    return {subtask["host"] for vertex in job.live()["vertices"] for subtask in vertex["subtasks"]}


def test_a_job_over_two_hosts_goes_on_exactly_when_the_network_between_them_was_cut(
    cluster: TwoHosts, database: PostgresServer, tmp_path: Path
) -> None:
    with running_job(cluster, tmp_path, database) as job:
        check_that_it_survives_a_cut(cluster, job)
        job.stop()


def check_that_it_survives_a_cut(cluster: TwoHosts, job: ProvingJob) -> None:
    client = cluster.client
    request_id = client.trigger_savepoint(job.id, None, "CANONICAL")
    wait_until(lambda: client.operation(job.id, request_id)["state"] == "COMPLETED", 60, "a savepoint")
    assert "location" in client.operation(job.id, request_id)["result"]

    before = job.live()["attempt"]
    cluster.network.cut()
    asked = client.trigger_savepoint(job.id, None, "CANONICAL")
    noticed_s = wait_until(lambda: job.live()["state"] != "RUNNING", RECOVERY_S, "the lost slots are noticed")
    lost_s = wait_until(lambda: cluster.taskmanagers() == {"alpha"}, RECOVERY_S, "the other host is lost")
    assert "location" not in (client.operation(job.id, asked)["result"] or {})
    job.check_that_nothing_visible_has_changed()

    cluster.network.heal()
    back_s = wait_until(lambda: cluster.taskmanagers() == {"alpha", "beta"}, RECOVERY_S, "the other host is back")
    on_s = job.wait_until_it_moves("the job goes on")
    # it has failed with its attempt, or, where it had not begun, it was taken by the next one
    wait_until(lambda: client.operation(job.id, asked)["state"] == "COMPLETED", RECOVERY_S, "the savepoint is answered")
    print(
        f"cut: noticed after {noticed_s:.1f} s, host lost {lost_s:.1f} s later; "
        f"healed: back after {back_s:.1f} s, output {on_s:.1f} s later"
    )
    assert job.live()["attempt"] > before
    assert hosts_of(job) == {"alpha", "beta"}


def test_a_job_does_not_notice_a_cut_that_is_shorter_than_its_heartbeat_timeout(
    cluster: TwoHosts, database: PostgresServer, tmp_path: Path
) -> None:
    with running_job(cluster, tmp_path, database, **{"heartbeat.timeout": "60 s"}) as job:
        before = job.live()
        cluster.network.cut()
        _PAUSE.wait(3)
        cluster.network.heal()
        job.wait_until_it_moves("the job goes on")
        after = job.live()
        assert (after["attempt"], after["restarts"]) == (before["attempt"], before["restarts"]), after["exceptions"]
        job.stop()


def test_a_program_without_a_session_cluster_has_slots_on_both_hosts(cluster: TwoHosts, tmp_path: Path) -> None:
    program = tmp_path / "both_hosts.py"
    program.write_text(BOTH_HOSTS)
    printed = cluster.run_program(
        program,
        RECOVERY_S,
        TIDEMARK_CONF_SPARK_MASTER=cluster.spark_master,
        TIDEMARK_CONF_PARALLELISM_DEFAULT="2",
    )
    counts = dict(line.split() for line in printed.splitlines() if line.startswith(("alpha", "beta")))
    assert set(counts) == {"alpha", "beta"}
    assert sum(map(int, counts.values())) == 2_000

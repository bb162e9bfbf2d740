"""Transactions whose coordinator moves: one of three brokers is killed at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from runtime.operators.sink import CommitTally
from tests.connectors.crash_model import TYPE, SinkJob, random_steps
from tests.connectors.kafka_broker import KafkaCluster, running_kafka_cluster
from tests.connectors.kafka_sinks import abort_of_frozen, committables, exactly_once, ids, kill, rows
from tests.connectors.rigs import SinkRig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=[1, 2], ids=["version 1", "version 2"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with running_kafka_cluster(tmp_path_factory.mktemp("kafka"), request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The brokers that a test has started again outlive it; the cluster's end ends them."""


@pytest.fixture
def topic(cluster: KafkaCluster, request: pytest.FixtureRequest) -> str:
    # the test before may have left one of them killed
    cluster.start()
    name = f"topic-{abs(hash(request.node.nodeid)):x}"
    cluster.create_topic(name, 2)
    return name


@pytest.mark.parametrize("moment", ["before the commit", "behind the commit, whose answer was lost", "in a good order"])
def test_a_commit_finds_the_coordinator_that_took_over(cluster: KafkaCluster, topic: str, moment: str) -> None:
    sink = exactly_once(cluster, topic)
    rig = SinkRig(sink, TYPE)
    rig.write(*rows(1, 2, 3))
    prepared = committables(rig.snapshot(1))
    committer = sink.create_committer()
    assert committer is not None
    if "behind" in moment:
        committer.commit(prepared)
    coordinator = cluster.coordinator_of(prepared[0]["id"])
    assert coordinator is not None
    if "order" in moment:
        coordinator.stop()
    else:
        coordinator.kill()
    assert committer.commit(prepared) == CommitTally()
    moved = cluster.coordinator_of(prepared[0]["id"])
    assert moved is not None and moved is not coordinator
    committer.close()
    kill(rig)
    assert ids(cluster, topic) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_there_once_whichever_broker_is_killed(cluster: KafkaCluster, topic: str, seed: int) -> None:
    random, job = Random(seed), SinkJob(exactly_once(cluster, topic), kill)
    for step in random_steps(seed, 24):
        if random.random() < 0.25:
            # one at a time: with two away, no record is acknowledged
            cluster.start()
            random.choice([*cluster.brokers.values()]).kill()
        job.do(*step)
    cluster.start()
    job.run([])
    # the clients of killed attempts live on in this process: what they ask for may arrive behind the sweep
    job.frozen_attempts += range(job.attempt)
    abort_of_frozen(cluster, job)
    assert ids(cluster, topic) == list(range(40))

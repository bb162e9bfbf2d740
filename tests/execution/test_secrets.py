"""A secret's value reaches the functions and connectors of a job, and nothing that is stored or shown."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from runtime.common import Configuration, SecretRef, Types, WatermarkStrategy
from runtime.common.serialization import SimpleStringSchema
from runtime.connectors.datagen import DataGeneratorSource
from runtime.connectors.redis_streams import RedisStreamSink, RedisStreamSource
from runtime.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from runtime.execution.errors import JobCanceledError, JobExecutionError
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.testing import run_job
from runtime.testing.jobs import CONTINUOUS_ON_MINI_CLUSTER, CONTINUOUS_ON_SPARK
from tests.cluster.redis_fixture import running_redis
from tests.execution.secret_jobs import storing_and_restarting
from tests.job_runs import record_run
from tests.support.waiting import wait_until

REDIS = SecretRef("redis-main", "url")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL has a password, which is the canary."""
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


class Tell(MapFunction):
    """Fails once, with the secret in the error."""

    def __init__(self, url: SecretRef, mark: Path) -> None:
        self.url = url
        self.mark = mark

    def map(self, value: int) -> str:
        if value == 7 and not self.mark.exists():
            self.mark.touch()
            raise RuntimeError(f"cannot reach {self.url.reveal()}")
        return str(value)


def copying(env: StreamExecutionEnvironment, mark: Path, count: int = 10) -> None:
    """0, 1, … into a stream of Redis."""
    numbers = DataGeneratorSource(lambda index: index, count, 100.0, Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    stream.map(Tell(REDIS, mark), Types.STRING()).sink_to(RedisStreamSink(REDIS, ["out"], SimpleStringSchema()))


def test_the_value_is_used_and_is_in_nothing_that_is_stored(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    password = urlsplit(server).password
    assert password
    monkeypatch.setenv("TIDEMARK_SECRET_REDIS_MAIN_URL", server)
    options = storing_and_restarting(tmp_path)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    copying(env, tmp_path / "mark", 1_000_000)
    graph = env.create_job_graph("copy")
    assert graph.secrets == (("redis-main", "url"),)
    graphs = [json.dumps(job_graph_to_json(graph)), repr(pickle.dumps(graph))]
    assert job_graph_from_json(json.loads(graphs[0])) == graph
    record_run("mini-cluster")
    with caplog.at_level(logging.DEBUG), redis.Redis.from_url(server, protocol=2) as out:
        client = env.execute_async("copy")
        wait_until(lambda: out.xlen("out") >= 10, 30, "ten records")
        client.cancel_with_savepoint((tmp_path / "savepoints").as_uri()).result()
        with pytest.raises(JobCanceledError):
            client.handle.wait(30)
        written = {fields[b"value"] for _, fields in out.xrange("out")}
    assert written == {str(i).encode() for i in range(len(written))}
    status = client.get_status()
    assert len(status.exceptions) == 1 and "cannot reach <redis-main.url>" in status.exceptions[0].cause.message
    assert list((tmp_path / "checkpoints").rglob("_metadata")) and list((tmp_path / "savepoints").rglob("_metadata"))
    stored = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    for text in (*graphs, *stored, caplog.text, repr(status)):
        assert password not in text


@pytest.mark.spark
def test_on_spark_too_it_is_taken_out_of_what_slots_say(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_REDIS_MAIN_URL", server)

    def loud(url: str) -> str:
        print("printed", REDIS.reveal())
        return url

    def build(env: StreamExecutionEnvironment) -> DataStream:
        source = RedisStreamSource(REDIS, ["in"], SimpleStringSchema(), bounded=True)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "entries")
        stream.map(lambda _: f"a sink shows {REDIS.reveal()}", Types.STRING()).print()
        return stream.map(loud, Types.STRING())

    with redis.Redis.from_url(server, protocol=2) as client:
        client.xadd("in", {"value": "hello"})
    record_run("spark")
    result = run_job(build, mode=CONTINUOUS_ON_SPARK)
    assert result.values == ["hello"]
    printed = capfd.readouterr()
    assert "printed <redis-main.url>" in printed.out and "a sink shows <redis-main.url>" in printed.out
    assert str(urlsplit(server).password) not in printed.out + printed.err


def test_a_missing_secret_fails_the_job_at_its_start_whatever_the_restart_strategy(tmp_path: Path) -> None:
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError, match=r"SecretRef\('redis-main', 'url'\).*TIDEMARK_SECRET_REDIS_MAIN_URL"):
        run_job(
            lambda env: copying(env, tmp_path / "mark"),
            options={"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 d"},
            mode=CONTINUOUS_ON_MINI_CLUSTER,
        )
    assert not (tmp_path / "mark").exists()


def test_a_value_that_is_no_url_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_REDIS_MAIN_URL", "redis://u:p@host:canary/0")
    (tmp_path / "mark").touch()
    record_run("mini-cluster")
    with pytest.raises(
        JobExecutionError, match=r"the value of SecretRef\('redis-main', 'url'\) is not a URL"
    ) as caught:
        run_job(lambda env: copying(env, tmp_path / "mark"), options={"restart-strategy.type": "none"})
    assert "canary" not in str(caught.value)

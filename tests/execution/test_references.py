"""What a reference names reaches functions and connectors of a job, and nothing that is stored or shown."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from runtime.common import Configuration, SecretRef, Types, WatermarkStrategy, secret_text
from runtime.common.config_options import ConfigurationError
from runtime.common.options import GLOBAL_JOB_PARAMETERS
from runtime.common.serialization import SimpleStringSchema
from runtime.connectors.datagen import DataGeneratorSource
from runtime.connectors.postgres_sink import PostgresSink
from runtime.connectors.redis_streams import RedisStreamSink
from runtime.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.execution.errors import JobCanceledError, JobExecutionError
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.testing import run_job
from runtime.testing.jobs import CONTINUOUS_ON_MINI_CLUSTER, CONTINUOUS_ON_SPARK, MICRO_BATCH_ON_SPARK
from tests.cluster.redis_fixture import running_redis
from tests.execution.secret_jobs import storing_and_restarting
from tests.job_runs import record_run
from tests.support.waiting import wait_until

CANARY = "c4n4ry-of-a-variable"
PARAMETERS = "db.password:${env:SHOP_PASSWORD},db.url:postgresql://me:${env:SHOP_PASSWORD}@db"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL has a password, which is a canary."""
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", CANARY)
    monkeypatch.setenv("TIDEMARK_REFERENCE_VARIABLES", "SHOP_*")


class Tell(MapFunction):
    """Tells the length of what it was given; fails once, with the values in the error."""

    def __init__(self, text: str | SecretRef, mark: Path) -> None:
        self.text = text
        self.mark = mark

    def open(self, runtime_context: RuntimeContext) -> None:
        self.parameters = [runtime_context.get_job_parameter(name, "") for name in ("db.password", "db.url")]

    def map(self, value: int) -> str:
        assert isinstance(self.text, SecretRef)
        if value == 7 and not self.mark.exists():
            self.mark.touch()
            raise RuntimeError(f"cannot reach {self.text.reveal()} with {self.parameters}")
        return ",".join(map(str, map(len, [self.text.reveal(), *self.parameters])))


LENGTHS = ",".join(map(str, (len(f"key {CANARY}"), len(CANARY), len(f"postgresql://me:{CANARY}@db"))))


def telling(env: StreamExecutionEnvironment, mark: Path, count: int) -> object:
    numbers = DataGeneratorSource(lambda index: index, count, 100.0, Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    return stream.map(Tell(secret_text("key ${env:SHOP_PASSWORD}"), mark), Types.STRING())


@pytest.mark.usefixtures("shop")
def test_values_are_used_and_are_in_nothing_that_is_stored(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    password = urlsplit(server).password
    assert password
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "redis").write_text(f"{password}\n")
    monkeypatch.setenv("TIDEMARK_REFERENCE_FILES", str(secrets))
    options = {**storing_and_restarting(tmp_path), GLOBAL_JOB_PARAMETERS.key: PARAMETERS}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    url = server.replace(password, f"${{file:{secrets}/redis}}")
    stream = telling(env, tmp_path / "mark", 1_000_000)
    stream.sink_to(RedisStreamSink(url, ["out"], SimpleStringSchema()))  # type: ignore[attr-defined]
    graph = env.create_job_graph("tell")
    assert graph.secrets == (("env:", "SHOP_PASSWORD"), ("file:", f"{secrets}/redis"))
    graphs = [json.dumps(job_graph_to_json(graph)), repr(pickle.dumps(graph))]
    assert job_graph_from_json(json.loads(graphs[0])) == graph
    record_run("mini-cluster")
    with caplog.at_level(logging.DEBUG), redis.Redis.from_url(server, protocol=2) as out:
        client = env.execute_async("tell")
        wait_until(lambda: out.xlen("out") >= 10, 30, "ten records")
        client.cancel_with_savepoint((tmp_path / "savepoints").as_uri()).result()
        with pytest.raises(JobCanceledError):
            client.handle.wait(30)
        assert {fields[b"value"] for _, fields in out.xrange("out")} == {LENGTHS.encode()}
    status = client.get_status()
    assert "cannot reach key <env:SHOP_PASSWORD> with ['<env:SHOP_PASSWORD>'" in status.exceptions[0].cause.message
    (secrets / "redis").unlink()
    stored = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert len(stored) > 2
    for text in (*graphs, *stored, caplog.text, repr(status)):
        assert CANARY not in text and password not in text


@pytest.mark.spark
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("mode", [CONTINUOUS_ON_SPARK, MICRO_BATCH_ON_SPARK], ids=["continuous", "micro-batch"])
def test_slots_on_spark_have_them_too(mode: object, tmp_path: Path) -> None:
    (tmp_path / "mark").touch()
    record_run("spark")
    options = {GLOBAL_JOB_PARAMETERS.key: PARAMETERS}
    result = run_job(lambda env: telling(env, tmp_path / "mark", 3), options=options, mode=mode)  # type: ignore[arg-type,return-value]
    assert result.values == [LENGTHS] * 3


def test_what_is_not_listed_fails_the_job_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", CANARY)
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError, match=r"\$\{env:SHOP_PASSWORD\} \(TIDEMARK_REFERENCE_VARIABLES"):
        run_job(
            lambda env: telling(env, tmp_path / "mark", 3),  # type: ignore[arg-type,return-value]
            options={"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 d"},
            mode=CONTINUOUS_ON_MINI_CLUSTER,
        )
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("execution.checkpointing.dir", "s3://me:${env:KEY}@bucket", "references are for pipeline.global-job-param"),
        ("pipeline.name", "of ${env:USER}", "references are for pipeline.global-job-parameters, and for connectors"),
        (GLOBAL_JOB_PARAMETERS.key, "a:${env:NOT ONE}", r"a reference is \$\{env:NAME\}"),
    ],
)
def test_options_of_the_engine_take_none(key: str, value: str, reason: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({key: value}))
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=reason):
        env.create_job_graph("refused")


def test_a_connector_whose_types_a_server_would_tell_wants_them_declared() -> None:
    sink = PostgresSink("postgresql://me:${env:SHOP_PASSWORD}@db/shop", "bids")
    assert str(sink.url) == "${env:SHOP_PASSWORD}" and isinstance(sink.url, SecretRef)

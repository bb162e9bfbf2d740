"""The self-proving job: what it is told, and what it consists of, for whoever runs it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import BucketAssigner, DataGeneratorSource, FileSink, NdjsonWriterFormat, RollingPolicy
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.connectors.kafka.sink import KafkaSink
from runtime.connectors.postgres_sink import PostgresSink
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee
from tests.chaos.fault_points import FaultPoints, FaultySink
from tests.chaos.kafka_topic import PREFIX, TOPIC
from tests.chaos.stream import COUNTED, OUT, RAW, RULES, Check, Ledger, ProvingSource, Tally, key_of, sources_of

MAX_PARALLELISM = 32
RULES_PER_SECOND = 10.0


@dataclass(frozen=True)
class JobConfig:
    """Configuration of a job; paths are absolute."""

    directory: str
    """Of the run: checkpoints/, out/, points/, taps/, status.json."""
    parallelism: int = 2
    rows_per_second: float = 60.0
    """Of each of the sources."""
    postgres_url: str = ""
    """Empty: there is no table."""
    kafka_servers: str = ""
    """Empty: there is no topic."""
    regions: int = 1
    """Pipelines that share nothing, each with its part of the sources; the same for all jobs of a run."""
    separate_slots: bool = False
    """Whether sources, keyed operators and sinks are in processes of their own; only with one region."""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def points(self) -> FaultPoints:
        return FaultPoints(f"{self.directory}/points", f"{self.directory}/checkpoints", f"{self.directory}/program.pid")

    def make_directories(self) -> None:
        """Make those that have to be there before the job."""
        for name in ("out", "points", "taps", "tmp", "checkpoints"):
            (Path(self.directory) / name).mkdir()

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> JobConfig:
        return cls(**json.loads(path.read_text()))


def build(config: JobConfig) -> StreamExecutionEnvironment:
    """The job, for Spark in application mode."""
    options = {
        "execution.target": "spark",
        # twelve slots of a job whose operators are apart, and those of a process that cannot be killed
        "spark.master": "local[16,1]",
        "parallelism.default": str(config.parallelism),
        "pipeline.max-parallelism": str(MAX_PARALLELISM),
        "execution.checkpointing.dir": f"file://{config.directory}/checkpoints",
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.timeout": "20 s",
        "execution.checkpointing.num-retained": "3",
        "execution.checkpointing.externalized-checkpoint-retention": "retain_on_cancellation",
        "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms",
        # a call that hangs ends only where that is asked for
        "task.stall.timeout": "8 s",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "io.tmp.dirs": f"{config.directory}/tmp",
        **config.options,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    add_pipelines(env, config)
    return env


def add_pipelines(env: StreamExecutionEnvironment, config: JobConfig) -> None:
    """Put the job into an environment: one pipeline for each region."""
    for region in range(config.regions):
        _add_pipeline(env, config, region)


def _add_pipeline(env: StreamExecutionEnvironment, config: JobConfig, region: int) -> None:
    """source → check → ledger by key → tally by source, with broadcast rules → files, PostgreSQL, and Kafka."""
    suffix = f"-{region}" if config.regions > 1 else ""
    points = config.points
    source = ProvingSource(config.rows_per_second, sources_of(region, config.regions))
    raw = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), f"source{suffix}")
    checked = raw.uid(f"source{suffix}").map(Check(points), RAW).uid(f"check{suffix}").name(f"check{suffix}")
    ledger = checked.key_by(lambda r: key_of(r[0], r[1])).process(Ledger(points), COUNTED)
    keyed = ledger.uid(f"ledger{suffix}").name(f"ledger{suffix}")
    numbers = DataGeneratorSource(lambda index: index, None, RULES_PER_SECOND, Types.LONG())
    rules = env.from_source(numbers, WatermarkStrategy.no_watermarks(), f"rules{suffix}").uid(f"rules{suffix}")
    if config.regions > 1:
        # what follows is in the group of its inputs
        for beginning in (raw, rules):
            beginning.slot_sharing_group(f"region{suffix}")
    elif config.separate_slots:
        keyed = keyed.slot_sharing_group("keyed")
    by_source = keyed.key_by(lambda r: r[0]).connect(rules.broadcast(RULES))
    tally = by_source.process(Tally(points, f"{config.directory}/taps"), OUT).uid(f"tally{suffix}")
    tally = tally.name(f"tally{suffix}")
    if config.separate_slots and config.regions == 1:
        tally = tally.slot_sharing_group("sinks")
    rolling = RollingPolicy.on_checkpoint_rolling_policy()
    files = (
        FileSink.for_ndjson(f"{config.directory}/out/{region}")
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(rolling)
        .build()
    )
    tally.sink_to(FaultySink(files, points)).uid(f"files{suffix}").name(f"files{suffix}")
    if config.postgres_url:
        table = PostgresSink(config.postgres_url, "out", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
        tally.sink_to(FaultySink(table, points)).uid(f"table{suffix}").name(f"table{suffix}")
    if config.kafka_servers:
        topic = KafkaSink(
            {"bootstrap.servers": config.kafka_servers},
            KafkaRecordSerialization(TOPIC, NdjsonWriterFormat()),
            DeliveryGuarantee.EXACTLY_ONCE,
            PREFIX,
        )
        tally.sink_to(FaultySink(topic, points)).uid(f"topic{suffix}").name(f"topic{suffix}")

"""A job without end that proves itself: it counts by key, and writes every count into files that are committed once.

Whatever is done to it, the counts of each key in its files are 1, 2, 3 …, none missing and none twice.
"""

import argparse

from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
parser.add_argument("--name", default="counted numbers")
options = parser.parse_args()

config = Configuration()
config.set_string("execution.checkpointing.interval", "500 ms")
config.set_string("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling", "0 s")
env = StreamExecutionEnvironment.get_execution_environment(config)
source = DataGeneratorSource(lambda index: index, rows_per_second=200.0)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counts = (
    numbers.map(lambda n: (n % 7, 1))
    .key_by(lambda pair: pair[0], key_type=Types.LONG())
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
    .name("count")
    .uid("count")
)
sink = (
    FileSink.for_ndjson(options.output)
    .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    .build()
)
counts.map(lambda pair: {"key": pair[0], "count": pair[1]}).name("line").uid("line").sink_to(sink).name("files").uid(
    "files"
)
env.execute(options.name)

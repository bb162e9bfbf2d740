"""A running count per auction in PyFlink's DataStream API; needs an interpreter with apache-flink and a Java."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor


class CountPerAuction(KeyedProcessFunction):
    """Emits for each bid how many its auction has had."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield count


def main(work: str, path: str, sink: str, slots: str) -> None:
    if work != "state":
        sys.exit(f"there is no work {work!r}")
    # by default it caches 1,000 keys, and a record of another one waits 0.8 ms for the JVM
    configuration = Configuration().set_string("python.state.cache-size", "100000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(int(slots))
    env.set_python_executable(sys.executable)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "bids")
    bids = lines.map(json.loads)
    counts = bids.key_by(lambda bid: bid["auction"], key_type=Types.LONG()).process(
        CountPerAuction(), output_type=Types.LONG()
    )
    if sink == "-":
        counts.filter(lambda count: count < 0).print()
    else:
        texts = counts.map(str, output_type=Types.STRING())
        texts.sink_to(FileSink.for_row_format(sink, Encoder.simple_string_encoder()).build())
    result = env.execute("state")
    print(json.dumps({"seconds": result.get_net_runtime() / 1000}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A FileSink of lines: the text of a record of each type."""

import tempfile
from decimal import Decimal
from pathlib import Path

from pyflink.common import Types
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink

COLUMNS = [
    (Types.STRING(), ["a,b", 'say "x"', "日本"]),
    (Types.FLOAT(), [1.1, 3e38]),
    (Types.DOUBLE(), [1e10, 0.1]),
    (Types.BIG_DEC(), [Decimal("1.50")]),
    (Types.BOOLEAN(), [True]),
    (Types.TUPLE([Types.STRING(), Types.FLOAT()]), [("a", 1.1)]),
    (Types.LIST(Types.DOUBLE()), [[1.0, 1e-5]]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for type_info, values in COLUMNS:
        with tempfile.TemporaryDirectory() as directory:
            indexes = env.from_collection(list(range(len(values))), Types.INT())
            records = indexes.map(lambda index, values=values: values[index], type_info)
            records.sink_to(FileSink.for_row_format(directory, Encoder.simple_string_encoder()).build())
            env.execute()
            for path in sorted(Path(directory).rglob("part-*")):
                print(path.read_text(), end="")


if __name__ == "__main__":
    main()

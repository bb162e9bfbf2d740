"""PICKLED_BYTE_ARRAY inside of rows, tuples, lists, maps and arrays, next to fields of other types."""

import datetime
from decimal import Decimal

from outcomes import show, show_together
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

ANY = Types.PICKLED_BYTE_ARRAY()

CASES = [
    (Types.ROW([ANY, Types.INT()]), [Row({"a": (1, None)}, 1), Row(2**100, None), Row(None, 3)]),
    (Types.TUPLE([ANY, ANY]), [(1, "x"), ([1.1], datetime.timedelta(days=1))]),
    (Types.LIST(ANY), [[1, "a", (2,)]]),
    (Types.MAP(Types.STRING(), ANY), [{"a": 1, "b": [b"bytes"]}]),
    (Types.OBJECT_ARRAY(ANY), [[Decimal("1.10"), {1}]]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    streams = {}
    for type_info, values in CASES:
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        streams[f"{type_info} of {values}"] = indexes.map(lambda index, values=values: values[index], type_info)
    show("collected", next(iter(streams.values())))
    show_together({label: stream.rebalance().map(repr, Types.STRING()) for label, stream in streams.items()})


if __name__ == "__main__":
    main()

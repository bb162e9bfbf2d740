"""None where a type is declared: as a record, and inside of others."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.ROW([Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]), [Row(None, None, None, None)]),
    (Types.ROW([Types.LIST(Types.INT()), Types.ROW([Types.INT()])]), [Row(None, Row(None)), Row([], None)]),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": None}]),
    (Types.BASIC_ARRAY(Types.INT()), [[1, None]]),
    (Types.LIST(Types.INT()), [[1, None]]),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, None)]),
    (Types.INT(), [None]),
    (Types.PICKLED_BYTE_ARRAY(), [None, [None], (None, {"a": None})]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for type_info, values in CASES:
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        converted = indexes.map(lambda index, values=values: values[index], output_type=type_info)
        show(f"{type_info} of {values}", converted)


if __name__ == "__main__":
    main()

"""Lists, arrays of each kind and bytes."""

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.LIST(Types.INT()), [(1, 2)]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, 2], []]),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [[0.5]]),
    (Types.PRIMITIVE_ARRAY(Types.BOOLEAN()), [[True, False]]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab"]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [[1, 2]]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", None, ""]]),
    (Types.OBJECT_ARRAY(Types.TUPLE([Types.INT(), Types.STRING()])), [[(1, "a"), (2, "b")]]),
    (Types.MAP(Types.STRING(), Types.INT()), [[("a", 1)]]),
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

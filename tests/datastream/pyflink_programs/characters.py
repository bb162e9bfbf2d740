"""CHAR and STRING, with characters from all planes."""

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.CHAR(), ["x", "é", "日"]),
    (Types.CHAR(), ["ab"]),
    (Types.CHAR(), [65]),
    (Types.STRING(), ["", "a\x00b", "日本", "\U0001f600", "line\nline", '"quoted"']),
    (Types.STRING(), [1]),
    (Types.STRING(), [b"x"]),
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

"""Rows in rows, lists, maps, arrays and tuples: names, missing fields, fields of the wrong type."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

POINT = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.DOUBLE()])
PLACE = Types.ROW_NAMED(["name", "point"], [Types.STRING(), POINT])

CASES = [
    (PLACE, [Row("a", Row(1, 2)), Row(point=Row(y=2.0, x=1), name="c"), Row("d", None), Row(None, Row(None, None))]),
    (
        Types.ROW([Types.LIST(POINT), Types.MAP(Types.STRING(), PLACE), Types.OBJECT_ARRAY(POINT)]),
        [Row([Row(1, 1.0), Row(y=None, x=2)], {"p": Row("a", Row(1, 2.0))}, [Row(3, 4.0)]), Row([], {}, [])],
    ),
    (
        Types.TUPLE([POINT, Types.TUPLE([Types.INT(), Types.ROW([Types.ROW([Types.BYTE()])])])]),
        [(Row(y=1, x=2), (3, Row(Row(-1))))],
    ),
    (PLACE, [Row("a", Row(1, "high"))]),
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

"""sum, min, max, min_by and max_by of fields of many types."""

import datetime
from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

PAIRS = [("a", 2.5), ("a", 1.5), ("a", 4.0)]


def keyed(env, values, type_info):
    return env.from_collection(values, type_info).key_by(lambda value: 0, Types.INT())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    pair = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    for name in ("sum", "min", "max", "min_by", "max_by"):
        show(name, getattr(keyed(env, PAIRS, pair), name)(1))
    show("float sum", keyed(env, [0.1, 0.2, 0.3], Types.FLOAT()).sum())
    show("decimal sum", keyed(env, [Decimal("0.1"), Decimal("1E-20")], Types.BIG_DEC()).sum())
    show("text max", keyed(env, ["x", "y", "a"], Types.STRING()).max())
    dates = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)]
    show("date min", keyed(env, dates, Types.SQL_DATE()).min())
    rows = [Row(name="a", n=1), Row(name="b", n=2)]
    named = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.LONG()])
    show("row sum", keyed(env, rows, named).sum("n"))
    show("row max_by", keyed(env, rows, named).max_by("n"))


if __name__ == "__main__":
    main()

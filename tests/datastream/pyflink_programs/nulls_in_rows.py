"""None and a value in a row's field of each type, as the next function gets them, and all values collected."""

import datetime
from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

FIELDS = [
    (Types.BOOLEAN(), False),
    (Types.BYTE(), 0),
    (Types.SHORT(), -1),
    (Types.INT(), 0),
    (Types.LONG(), 2**40),
    (Types.DOUBLE(), -0.0),
    (Types.STRING(), ""),
    (Types.BIG_DEC(), Decimal("0.00")),
    (Types.SQL_DATE(), datetime.date(1970, 1, 1)),
    (Types.SQL_TIME(), datetime.time(0)),
    (Types.MAP(Types.STRING(), Types.INT()), {}),
    (Types.BASIC_ARRAY(Types.INT()), []),
    (Types.OBJECT_ARRAY(Types.STRING()), [""]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [0]),
    (Types.ROW([Types.INT()]), Row(None)),
]
TYPE = Types.ROW([kind for kind, _ in FIELDS])
VALUES = [value for _, value in FIELDS]


def with_field(index):
    """A row with a value in one field only; in none for the index behind the last one."""
    return Row(*[value if field == index else None for field, value in enumerate(VALUES)])


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    indexes = env.from_collection(list(range(len(FIELDS) + 1)), Types.INT())
    rows = indexes.map(with_field, TYPE)
    shown = (lambda row: str([value for value in row if value is not None]), Types.STRING())
    show("chained", rows.map(*shown))
    show("sent", rows.rebalance().map(*shown))
    show("all at once", indexes.filter(lambda n: n == 0).map(lambda n: Row(*VALUES), TYPE))


if __name__ == "__main__":
    main()

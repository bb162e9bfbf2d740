"""Dicts as records that are keyed: by an item, by all sorted items, by a MAP and by the dict itself."""

from outcomes import show, show_together
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

SALES = [
    {"fruit": "fig", "count": 1},
    {"fruit": "pear", "count": 2},
    {"count": 1, "fruit": "fig"},
    {"fruit": "fig", "count": 3},
]


def added(one, other):
    return {"fruit": one["fruit"], "count": one["count"] + other["count"]}


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    sales = env.from_collection(SALES)
    streams = {
        "by an item": sales.key_by(lambda sale: sale["fruit"], Types.STRING()).reduce(added),
        "by an item, untyped": sales.key_by(lambda sale: sale["fruit"]).reduce(added),
        "by sorted items": sales.key_by(lambda sale: tuple(sorted(sale.items()))).reduce(added),
    }
    show_together({label: stream.map(str, Types.STRING()) for label, stream in streams.items()})
    show("by a missing item", sales.key_by(lambda sale: sale["price"]).reduce(added))
    counts = env.from_collection([{"a": 1}, {"a": 2}, {"a": 1}], Types.MAP(Types.STRING(), Types.INT()))
    show("typed records", counts.key_by(lambda count: count["a"], Types.INT()).reduce(lambda a, b: {"a": 10}))
    show("by a MAP", counts.key_by(lambda count: count, Types.MAP(Types.STRING(), Types.INT())).reduce(lambda a, b: a))
    show("sum of an item", counts.key_by(lambda count: 0, Types.INT()).sum("a"))


if __name__ == "__main__":
    main()

"""Rows: kinds, names, nested rows; what a map makes of them and what print shows."""

from pyflink.common import Row, RowKind, Types
from pyflink.datastream import StreamExecutionEnvironment

INNER = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.DOUBLE()])
OUTER = Types.ROW_NAMED(["name", "point"], [Types.STRING(), INNER])


def relocated(row):
    return Row(name=row.name.upper(), point=Row(x=row.point.x + 1, y=row.point.y / 2))


def with_kind(index):
    row = Row("k", index)
    row.set_row_kind(list(RowKind)[index])
    return row


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection([0, 1, 2, 3], Types.INT()).map(with_kind, Types.ROW([Types.STRING(), Types.INT()])).print()
    env.execute()
    places = env.from_collection([Row("a", Row(1, 2.0)), Row("b", Row(-1, 0.5))], OUTER)
    places.map(relocated, OUTER).print()
    env.execute()
    places.map(lambda row: (row[0], list(row.point), row.point["x"])).print()
    env.execute()
    places.map(lambda row: str(row.as_dict(True)), Types.STRING()).print()
    env.execute()

    person = Row("name", "age")
    alice = person("Alice", 11)
    print(alice, alice == Row(name="Alice", age=11), alice.as_dict(), len(alice), "Alice" in alice)
    print(Row("a", 1), Row("a", 1) == Row("a", 1), Row(a=1)["a"], Row.of_kind(RowKind.DELETE, 1).get_row_kind())
    named = Row(1, 2)
    named.set_field_names(["one", "two"])
    print(named, named.one, named.get_fields_by_names(["two", "one"]), sorted([Row(2), Row(1)], key=lambda r: r[0]))


if __name__ == "__main__":
    main()

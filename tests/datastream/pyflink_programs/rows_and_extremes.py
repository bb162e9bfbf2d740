"""Rows by name and by position; running min, max, min_by, max_by and sum of a field."""

from pyflink.common import Row, RowKind, Types
from pyflink.datastream import StreamExecutionEnvironment

FLIGHT = Types.ROW_NAMED(["origin", "delay", "carrier"], [Types.STRING(), Types.INT(), Types.STRING()])
FLIGHTS = [
    Row("JFK", 5, "AA"),
    Row("EWR", 60, "UA"),
    Row("JFK", -3, "DL"),
    Row("JFK", 12, "B6"),
    Row("EWR", 60, "B6"),
    Row("EWR", 1, "AA"),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    flights = env.from_collection(FLIGHTS, FLIGHT)
    by_origin = flights.key_by(lambda flight: flight.origin, key_type=Types.STRING())
    by_origin.min("delay").print("min")
    env.execute()
    by_origin.max("delay").print("max")
    env.execute()
    by_origin.min_by("delay").print("min_by")
    env.execute()
    by_origin.max_by("delay").print("max_by")
    env.execute()
    by_origin.sum("delay").print("sum")
    env.execute()
    flights.map(lambda flight: sorted(flight.as_dict().items())).print()
    env.execute()
    flights.filter(lambda flight: flight["delay"] > 10).map(
        lambda flight: Row.of_kind(RowKind.UPDATE_AFTER, flight[0], flight[1] * 2),
        output_type=Types.ROW([Types.STRING(), Types.INT()]),
    ).print()
    env.execute()


if __name__ == "__main__":
    main()

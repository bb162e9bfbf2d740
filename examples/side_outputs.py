"""Side outputs: one pass over the lines gives readings, faulty lines and alarms, each a stream of its own type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runtime.common import Types
from runtime.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

LINES = ("Emden 310", "Husum 702", "nonsense", "Emden high", "Husum 281")
READING = Types.TUPLE([Types.STRING(), Types.LONG()])
FAULTY = OutputTag("faulty", Types.STRING())
ALARMS = OutputTag("alarms", READING)


class Parse(ProcessFunction):
    """Readings to the main output, what is no reading and what is too high to the side."""

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterable[Any]:
        try:
            gauge, level = value.split()
            reading = (gauge, int(level))
        except ValueError as error:
            yield FAULTY, f"{value!r}: {error}"
            return
        if reading[1] > 700:
            yield ALARMS, reading
        yield reading


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = env.from_collection(LINES, Types.STRING()).process(Parse(), READING)
    readings.print("reading")
    readings.get_side_output(FAULTY).print("faulty")
    readings.get_side_output(ALARMS).print("alarm")
    env.execute("side outputs")


if __name__ == "__main__":
    main()

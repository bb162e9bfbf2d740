"""Connected streams: a control stream switches gauges on, and their readings wait in state until it has.

Both streams have the same key, so the function's two methods share the gauge's state.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Types
from runtime.datastream import KeyedCoProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ListStateDescriptor, ValueStateDescriptor

SWITCHED_ON = ("Emden", "Cuxhaven")
READINGS = (("Emden", 310), ("Husum", 702), ("Emden", 655), ("Cuxhaven", 281))


class Gate(KeyedCoProcessFunction):
    """Lets readings of gauges through that are switched on, whichever comes first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.is_on = runtime_context.get_state(ValueStateDescriptor("on", Types.BOOLEAN()))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, value: str, ctx: KeyedCoProcessFunction.Context) -> Iterable[str]:
        self.is_on.update(True)
        for level in self.waiting.get():
            yield f"{value}: {level}"
        self.waiting.clear()

    def process_element2(self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context) -> Iterable[str]:
        if self.is_on.value():
            yield f"{value[0]}: {value[1]}"
        else:
            self.waiting.add(value[1])


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    switches = env.from_collection(SWITCHED_ON, Types.STRING())
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    (
        switches.connect(readings)
        .key_by(lambda gauge: gauge, lambda reading: reading[0], Types.STRING())
        .process(Gate(), Types.STRING())
        .print()
    )
    env.execute("connected streams")


if __name__ == "__main__":
    main()

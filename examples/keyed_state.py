"""Keyed state: value, map and list state of one function, each with a part per key.

Each account has a balance, a count per kind of movement, and the last three amounts. A movement that would overdraw the
account is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Types
from runtime.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

#: account, amount
MOVEMENTS = (("ada", 50), ("bob", 20), ("ada", -30), ("bob", -25), ("ada", -30), ("ada", 5), ("bob", -20))


class Account(KeyedProcessFunction):
    """Books movements."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))
        self.kinds = runtime_context.get_map_state(MapStateDescriptor("kinds", Types.STRING(), Types.LONG()))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        account, amount = value
        balance = (self.balance.value() or 0) + amount
        kind = "refused" if balance < 0 else "in" if amount > 0 else "out"
        self.kinds.put(kind, (self.kinds.get(kind) or 0) + 1)
        if kind != "refused":
            self.balance.update(balance)
            self.last.update([*self.last.get(), amount][-3:])
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.kinds.items()))
        yield f"{account}: {self.balance.value()} ({kinds}), last {list(self.last.get())}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    movements = env.from_collection(MOVEMENTS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    movements.key_by(lambda movement: movement[0], key_type=Types.STRING()).process(Account(), Types.STRING()).print()
    env.execute("keyed state")


if __name__ == "__main__":
    main()

"""Measures the cost of the hashmap backend per record: `python -m tests.state.bench_hashmap`. Numbers are ratios of
machines."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from runtime.core.clock import SYSTEM_CLOCK
from runtime.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange
from tests.state.backends import ignore

RECORDS = 500_000


def report(name: str, run: Callable[[], object]) -> None:
    run()
    print(f"{name:34} {min(timeit.repeat(run, number=1, repeat=3)) / RECORDS * 1e9:6.0f} ns")


def main() -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)
    count = backend.get_state(ValueStateDescriptor("count"))

    def count_keys(keys: list[Any]) -> None:
        set_key, value, update = backend.set_current_key, count.value, count.update
        for key in keys:
            set_key(key)
            seen = value()
            update(1 if seen is None else seen + 1)

    def dict_of_counts(keys: list[Any]) -> None:
        counts: dict[Any, int] = {}
        for key in keys:
            counts[key] = counts.get(key, 0) + 1

    makers: dict[str, Callable[[int], Any]] = {
        "int": int,
        "str": str,
        "tuple": lambda n: ("a", n),
        "float": float,
    }
    for name, make in makers.items():
        keys = [make(n % 1000) for n in range(RECORDS)]
        report(f"{name} key, value(), update()", partial(count_keys, keys))
    report("plain dict, int key", lambda: dict_of_counts([n % 1000 for n in range(RECORDS)]))

    window = (0, 10)
    backend.set_current_key("a")
    timers = backend.get_timer_service("t", ignore, ignore)

    def register_again() -> None:
        register = timers.register_event_time_timer
        for _ in range(RECORDS):
            register(10, window)

    report("timer that is registered already", register_again)
    plain = backend.get_state(ReducingStateDescriptor("r", lambda a, b: b))
    namespaced = backend.get_namespaced_state(ReducingStateDescriptor("n", lambda a, b: b))
    namespaced.set_current_namespace(window)

    def add(state: Any) -> None:
        add = state.add
        for _ in range(RECORDS):
            add(1)

    report("reducing add", lambda: add(plain))
    report("reducing add, namespaced", lambda: add(namespaced))


if __name__ == "__main__":
    main()

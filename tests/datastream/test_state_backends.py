"""Programs on each state backend, and the values that name one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common.configuration import Configuration
from runtime.common.exclusions import NotOffered
from runtime.common.time import Time
from runtime.common.typeinfo import Types
from runtime.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    PredefinedOptions,
    RuntimeContext,
)
from runtime.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from runtime.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from runtime.state.rocksdb.options import PREDEFINED, RocksDBSettings
from tests.datastream.running import environment, row_by_row, sorted_values_of

BACKENDS = ("hashmap", "rocksdb")
EVENTS = [(n % 7, n * 10, n) for n in range(500)]
"""Key, event time in ms, number."""


class Remembering(KeyedProcessFunction):
    """Counts, lists and maps the numbers of a key, and gives them out by a timer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.by_digit = runtime_context.get_map_state(MapStateDescriptor("digits", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        self.numbers.add(value[2])
        self.by_digit.put(value[2] % 10, value[2])
        ctx.timer_service().register_event_time_timer(value[1] // 1000 * 1000 + 999)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        digits = sorted(self.by_digit.items())
        yield ctx.get_current_key(), timestamp, self.count.value(), list(self.numbers.get()), digits
        self.numbers.clear()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_both_backends_give_the_same(parallelism: int) -> None:
    results = []
    for backend in BACKENDS:
        env = environment(parallelism, {"state.backend.type": backend, "pipeline.auto-watermark-interval": "0 ms"})
        events = env.from_collection(EVENTS).assign_timestamps_and_watermarks(row_by_row())
        results.append(sorted_values_of(events.key_by(lambda event: event[0]).process(Remembering())))
    assert len(results[0]) > 30
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(Time.milliseconds(300)), EventTimeSessionWindows.with_gap(Time.milliseconds(65))],
)
def test_both_backends_give_the_same_windows(assigner: Any) -> None:
    results = []
    for backend in BACKENDS:
        env = environment(2, {"state.backend.type": backend, "pipeline.auto-watermark-interval": "0 ms"})
        events = env.from_collection(EVENTS).assign_timestamps_and_watermarks(row_by_row(50))
        windows = events.key_by(lambda event: event[0]).window(assigner)
        results.append(sorted_values_of(windows.reduce(lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2]))))
    assert len(results[0]) > 6
    assert results[0] == results[1]


def test_backends_as_values_name_options() -> None:
    assert HashMapStateBackend().to_configuration().get_string("state.backend.type", "") == "hashmap"
    backend = EmbeddedRocksDBStateBackend(True)
    assert backend.is_incremental_checkpoints_enabled()
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert backend.get_db_storage_paths() is None
    backend.set_db_storage_paths("/disk1", "/disk2")
    backend.set_number_of_transfer_threads(2)
    configuration = backend.to_configuration()
    assert configuration.get_string("state.backend.type", "") == "rocksdb"
    assert configuration.get_boolean("execution.checkpointing.incremental", False)
    settings = RocksDBSettings.of(configuration)
    assert settings.local_directories == ("/disk1", "/disk2")
    assert (settings.background_threads, settings.transfer_threads) == (4, 2)
    env = environment()
    env.configure(configuration)
    assert {option.value for option in PredefinedOptions} == set(PREDEFINED)


def test_what_a_backend_is_not_given() -> None:
    with pytest.raises(TypeError, match="bool or None, not 'yes'"):
        EmbeddedRocksDBStateBackend("yes")  # type: ignore[arg-type]
    backend = EmbeddedRocksDBStateBackend()
    with pytest.raises(ValueError, match="must be positive"):
        backend.set_number_of_transfer_threads(0)
    with pytest.raises(NotOffered, match="Java class"):
        backend.set_options("factory")  # type: ignore[attr-defined]
    incremental = "execution.checkpointing.incremental"
    assert incremental not in backend.to_configuration().to_dict()
    assert isinstance(backend.to_configuration(), Configuration)

"""Partitioners against a model that deals out one record at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.core.keys import encode_key
from runtime.graph.partitioning import Partitioning
from runtime.network import partitioners
from runtime.network.partitioners import (
    ChannelSelector,
    KeyGroupSelector,
    Part,
    PartitionError,
    RoundRobinSelector,
    connected_consumers,
    connected_producers,
    create_selector,
)
from runtime.state.key_groups import key_group_of, operator_index_for_key_group

Events = list[tuple[str, Any, Any]]
keys = st.one_of(st.integers(-5, 5), st.text("ab", max_size=2), st.booleans(), st.floats(-2, 2), st.none())


@st.composite
def batches(draw: st.DrawFn) -> RecordBatch:
    values = draw(st.lists(keys, max_size=30))
    offsets = sorted(draw(st.lists(st.integers(0, len(values)), max_size=draw(st.sampled_from([4, 40])))))
    timestamps = draw(st.sampled_from([None, list(range(len(values)))]))
    return RecordBatch.of_values(values, timestamps, [Mark(at, n) for n, at in enumerate(offsets)])


def events(part: Part) -> Events:
    """Return the elements that a channel receives."""
    if part is None:
        return []
    if isinstance(part, Watermark):
        return [("mark", part.timestamp, None)]
    seen: Events = []
    timestamps: list[Any] = part.timestamps() or [None] * part.num_rows
    for start, stop, watermark in part.segments():
        seen += [("row", part.values()[i], timestamps[i]) for i in range(start, stop)]
        if watermark is not None:
            seen.append(("mark", watermark, None))
    return seen


def model(batch: RecordBatch, channel_of: Callable[[int, Any], int | None], num_channels: int) -> list[Events]:
    """Each row to one channel (None = all), each mark to all; a channel without rows keeps the last mark."""
    channels: list[Events] = [[] for _ in range(num_channels)]
    row = 0
    for event in events(batch):
        target = None
        if event[0] == "row":
            target, row = channel_of(row, event[1]), row + 1
        for channel in range(num_channels) if target is None else [target]:
            channels[channel].append(event)
    return [seen if num_channels == 1 or any(e[0] == "row" for e in seen) else seen[-1:] for seen in channels]


def key_channel(key: Any, num_channels: int, max_parallelism: int) -> int:
    return operator_index_for_key_group(max_parallelism, num_channels, key_group_of(encode_key(key), max_parallelism))


@given(batches(), st.integers(1, 5))
def test_key_groups_follow_the_canonical_encoding(batch: RecordBatch, n: int) -> None:
    selector = create_selector(Partitioning.KEY_GROUP, n, 0, lambda value: value, 128)
    for _ in range(2):  # the second time from the cache
        parts = selector.split(batch)
        assert list(map(events, parts)) == model(batch, lambda _, value: key_channel(value, n, 128), n)
        assert all(part.keys == part.values() for part in parts if isinstance(part, RecordBatch))


@pytest.mark.parametrize("highest", [300, 2**40, 2**63 - 1, 2**70])
@pytest.mark.parametrize("num_channels", [3, 300])
def test_many_numbers_go_where_each_of_them_would(highest: int, num_channels: int) -> None:
    random = Random(highest)
    values = [random.randint(-highest, highest) for _ in range(1_000)]
    selector = KeyGroupSelector(num_channels, lambda value: value, 512)
    for _ in range(2):
        parts = selector.split(RecordBatch.of_values(values, marks=[Mark(500, 7)]))
        expected = model(
            RecordBatch.of_values(values, marks=[Mark(500, 7)]),
            lambda _, value: key_channel(value, num_channels, 512),
            num_channels,
        )
        assert list(map(events, parts)) == expected


def test_equal_keys_of_different_types_are_different_keys() -> None:
    selector = KeyGroupSelector(64, lambda value: value, 128)
    for value in (1, 1.0, True, "1", (1,), (1.0,), (True,)):
        parts = selector.split(RecordBatch.of_values([value]))
        [channel] = [i for i, part in enumerate(parts) if part is not None]
        assert channel == key_channel(value, 64, 128)


def test_key_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioners, "KEY_CACHE_SIZE", 10)
    selector = KeyGroupSelector(3, lambda value: value, 128)
    for start in range(0, 100, 7):
        batch = RecordBatch.of_values(list(range(start, start + 25)))
        assert list(map(events, selector.split(batch))) == model(batch, lambda _, v: key_channel(v, 3, 128), 3)
        assert all(len(known) <= 10 for known in selector._channels_of.values())


def test_keys_of_an_earlier_key_by_are_not_used() -> None:
    batch = RecordBatch.of_values(["a", "b"], keys=["stale", "stale"])
    [part] = KeyGroupSelector(1, lambda value: value, 128).split(batch)
    assert isinstance(part, RecordBatch) and part.keys == ["a", "b"] and batch.keys == ["stale", "stale"]


@given(batches(), st.integers(1, 5))
def test_broadcast_sends_everything_everywhere(batch: RecordBatch, n: int) -> None:
    parts = create_selector(Partitioning.BROADCAST, n, 0).split(batch)
    assert [events(part) for part in parts] == [events(batch)] * n


@given(batches(), st.integers(1, 5))
def test_global_sends_rows_to_the_first(batch: RecordBatch, n: int) -> None:
    parts = create_selector(Partitioning.GLOBAL, n, 0).split(batch)
    assert events(parts[0]) == events(batch)
    assert list(map(events, parts[1:])) == model(batch, lambda *_: 0, n)[1:]


@given(st.lists(batches(), max_size=6), st.integers(1, 5), st.integers(0, 9))
def test_rebalance_is_even_at_any_time_and_keeps_order(stream: list[RecordBatch], n: int, producer: int) -> None:
    selector = create_selector(Partitioning.REBALANCE, n, producer)
    counts = [0] * n
    for batch in stream:
        parts = selector.split(batch)
        rows = [[e for e in events(part) if e[0] == "row"] for part in parts]
        assert sorted((e for seen in rows for e in seen), key=repr) == sorted(
            (e for e in events(batch) if e[0] == "row"), key=repr
        )
        if batch.timestamps() is not None:  # they number the rows
            owner = {e[2]: channel for channel, seen in enumerate(rows) for e in seen}
            channel_of = functools.partial(lambda owner, row, _: owner[row], owner)
            assert list(map(events, parts)) == model(batch, channel_of, n)
        counts = [count + len(seen) for count, seen in zip(counts, rows, strict=True)]
        assert max(counts) - min(counts) <= 1


def test_first_row_goes_to_a_channel_of_the_producers_own() -> None:
    firsts = []
    for producer in range(3):
        parts = RoundRobinSelector(3, producer).split(RecordBatch.of_values(["x"]))
        firsts.append([part is not None for part in parts].index(True))
    assert firsts == [0, 1, 2]


@given(batches(), st.integers(1, 5))
def test_shuffle_is_repeatable_and_loses_nothing(batch: RecordBatch, n: int) -> None:
    def deal() -> list[Events]:
        selector = create_selector(Partitioning.SHUFFLE, n, 0, random=np.random.default_rng(4))
        return list(map(events, selector.split(batch)))

    assert deal() == deal()
    assert sum(e[0] == "row" for seen in deal() for e in seen) == batch.num_rows


@given(batches(), st.integers(1, 5))
def test_custom_partitioner_decides(batch: RecordBatch, n: int) -> None:
    chosen = (lambda key, channels: len(key) % channels, lambda value: repr(value))
    parts = create_selector(Partitioning.CUSTOM, n, 0, chosen).split(batch)
    assert list(map(events, parts)) == model(batch, lambda _, value: len(repr(value)) % n, n)


@pytest.mark.parametrize("channel", [-1, 2, "0", None, 0.0])
def test_custom_partitioner_that_leaves_the_range_is_named(channel: Any) -> None:
    selector = create_selector(Partitioning.CUSTOM, 2, 0, (lambda key, n: channel, lambda value: value))
    with pytest.raises(PartitionError, match=r"chose channel .* of 2 for 'record'"):
        selector.split(RecordBatch.of_values(["record"]))


def test_failing_key_selector_names_the_record() -> None:
    selector = KeyGroupSelector(2, lambda value: 10 // value, 128)
    with pytest.raises(PartitionError, match="the key selector failed on 0: ZeroDivisionError") as caught:
        selector.split(RecordBatch.of_values([1, 2, 0, 3]))
    assert caught.value.record == 0 and isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("data_type", [pa.string(), pa.string_view()])
def test_columns_stay_columns(data_type: pa.DataType) -> None:
    columns = pa.record_batch({"value": pa.array(["a", "b", "c", "d"]).cast(data_type)})
    batch = RecordBatch.of_arrow(columns, Types.STRING(), np.array([1, 2, 3, 4]), [Mark(2, 9)])
    parts = KeyGroupSelector(2, lambda value: value, 128).split(batch)
    assert all(isinstance(part, RecordBatch) and part.has_arrow for part in parts if not isinstance(part, Watermark))
    assert list(map(events, parts)) == model(batch, lambda _, value: key_channel(value, 2, 128), 2)


@pytest.mark.parametrize(
    "selector",
    [
        create_selector(p, 1, 0, partitioner)
        for p, partitioner in [
            (Partitioning.FORWARD, None),
            (Partitioning.GLOBAL, None),
            (Partitioning.BROADCAST, None),
            (Partitioning.REBALANCE, None),
            (Partitioning.RESCALE, None),
            (Partitioning.SHUFFLE, None),
        ]
    ],
)
def test_one_channel_takes_the_batch_itself(selector: ChannelSelector) -> None:
    batch = RecordBatch.of_values([1], marks=[Mark(1, 1)])
    assert selector.split(batch)[0] is batch


@given(st.sampled_from(Partitioning), st.integers(1, 20), st.integers(1, 20))
def test_both_ends_agree_on_the_channels(partitioning: Partitioning, producers: int, consumers: int) -> None:
    if partitioning is Partitioning.FORWARD and producers != consumers:
        with pytest.raises(ValueError, match="forward edge"):
            connected_consumers(partitioning, 0, producers, consumers)
        with pytest.raises(ValueError, match="forward edge"):
            connected_producers(partitioning, 0, producers, consumers)
        return
    out = {(p, c) for p in range(producers) for c in connected_consumers(partitioning, p, producers, consumers)}
    into = {(p, c) for c in range(consumers) for p in connected_producers(partitioning, c, producers, consumers)}
    assert out == into
    assert len({p for p, _ in out}) == producers and len({c for _, c in out}) == consumers
    assert len(out) == (max(producers, consumers) if partitioning.is_pointwise else producers * consumers)


def test_rescale_connects_as_flink_does() -> None:
    assert [connected_consumers(Partitioning.RESCALE, p, 2, 4) for p in range(2)] == [[0, 1], [2, 3]]
    assert [connected_producers(Partitioning.RESCALE, c, 4, 2) for c in range(2)] == [[0, 1], [2, 3]]
    assert [connected_consumers(Partitioning.RESCALE, p, 2, 3) for p in range(2)] == [[0, 1], [2]]
    assert [connected_producers(Partitioning.RESCALE, c, 3, 2) for c in range(2)] == [[0], [1, 2]]

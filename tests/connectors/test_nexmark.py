"""Nexmark: the published proportions, the same event for the same number, one kind as part of the whole."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from runtime.common import Row
from runtime.connectors import NexmarkConfig, NexmarkKind, NexmarkSource
from runtime.connectors.nexmark import count_of
from runtime.core.arrow import to_arrow
from runtime.core.batch import RecordBatch
from runtime.operators.source import Boundedness
from tests.connectors.rigs import SourceRig, run_with_rescaling

CONFIG = NexmarkConfig(events=500, seed=3)
PINNED = [(1000, 1001, 143040, "channel-5302"), (1001, 1001, 562, "Baidu"), (1000, 1001, 43543, "Apple")]


def rows_of(kind: NexmarkKind, config: NexmarkConfig = CONFIG) -> list[Row]:
    return SourceRig(NexmarkSource(kind, config)).run(64).values


def columns(kind: NexmarkKind, rows: int, seed: int = 1) -> RecordBatch:
    return NexmarkSource(kind, NexmarkConfig(seed=seed)).generate(0, rows)


def test_events_come_in_the_published_proportions() -> None:
    kinds = [row.event_type for row in rows_of(NexmarkKind.EVENTS)]
    assert Counter(kinds) == {0: 10, 1: 30, 2: 460}
    assert kinds[:5] == [0, 1, 1, 1, 2]
    for row in rows_of(NexmarkKind.EVENTS):
        parts = [row.person, row.auction, row.bid]
        assert [part is not None for part in parts] == [row.event_type == i for i in range(3)]


@pytest.mark.parametrize(
    ("kind", "field"),
    [(NexmarkKind.PERSONS, "person"), (NexmarkKind.AUCTIONS, "auction"), (NexmarkKind.BIDS, "bid")],
)
def test_a_stream_of_one_kind_is_that_part_of_the_whole(kind: NexmarkKind, field: str) -> None:
    whole = [row[field] for row in rows_of(NexmarkKind.EVENTS) if row[field] is not None]
    assert rows_of(kind) == whole


@pytest.mark.parametrize("kind", NexmarkKind)
def test_events_do_not_depend_on_batches_or_parallelism(kind: NexmarkKind) -> None:
    source = NexmarkSource(kind, CONFIG)
    rows = sorted(map(repr, SourceRig(source).run(500).values))
    assert sorted(map(repr, SourceRig(source, 3).run(7).values)) == rows
    assert sorted(map(repr, run_with_rescaling(source, 33))) == rows
    other = NexmarkSource(kind, NexmarkConfig(events=500, seed=4))
    assert sorted(map(repr, SourceRig(other).run().values)) != rows


@pytest.mark.parametrize("kind", NexmarkKind)
def test_columns_and_rows_agree_with_the_type(kind: NexmarkKind) -> None:
    batch = columns(kind, 200)
    assert batch.type_info is not None
    assert to_arrow(batch.values(), batch.type_info).equals(batch.arrow())


def test_the_first_bids_are_pinned() -> None:
    bids = columns(NexmarkKind.BIDS, 3).values()
    assert [(bid.auction, bid.bidder, bid.price, bid.channel) for bid in bids] == PINNED


def test_event_times_follow_the_rate_and_are_set() -> None:
    config = NexmarkConfig(events=500, event_time_rate=100, first_event_ms=7000)
    batch = NexmarkSource(NexmarkKind.EVENTS, config).generate(0, 500)
    assert batch.timestamps() == [7000 + i * 10 for i in range(500)]
    bids = NexmarkSource(NexmarkKind.BIDS, config).generate(44, 48)
    assert bids.timestamps() == [7480, 7490, 7540, 7550]
    assert bids.arrow().column("date_time").cast("int64").to_pylist() == [ms * 1000 for ms in bids.timestamps() or ()]


def test_ids_lead_back_to_what_exists_but_for_those_that_are_to_come() -> None:
    bids = columns(NexmarkKind.BIDS, 100_000).arrow()
    auction, bidder = (bids.column(name).to_numpy() for name in ("auction", "bidder"))
    number = np.arange(100_000)
    last_auction = number // 46 * 3 + 2
    assert (auction >= 1000).all() and (auction - 1000 <= last_auction + 10).all()
    assert (bidder >= 1000).all() and (bidder - 1000 <= number // 46 + 10).all()
    hot = (auction - 1000) % 100 == 0
    assert 0.45 < hot[50_000:].mean() < 0.55
    assert 0.70 < ((bidder - 1000) % 100 == 1).mean() < 0.80
    auctions = columns(NexmarkKind.AUCTIONS, 3000).arrow()
    assert auctions.column("id").to_pylist() == list(range(1000, 4000))
    seller = auctions.column("seller").to_numpy()
    assert (seller - 1000 <= np.arange(3000) // 3 + 10).all()
    assert set(auctions.column("category").to_pylist()) == set(range(10, 15))


def test_prices_and_ends_are_in_their_ranges() -> None:
    price = columns(NexmarkKind.BIDS, 100_000).arrow().column("price").to_numpy()
    assert price.min() >= 100 and price.max() < 10**8
    assert 95_000 < np.median(price) < 105_000
    auctions = columns(NexmarkKind.AUCTIONS, 3000).values()
    lengths = [(auction.expires - auction.date_time).total_seconds() * 1000 for auction in auctions]
    assert min(lengths) >= 1 and max(lengths) <= 2 * 167
    assert all(auction.reserve > auction.initial_bid for auction in auctions)


@pytest.mark.parametrize("events", [0, 1, 3, 4, 49, 50, 51, 54, 1000])
def test_counts_of_kinds_add_up(events: int) -> None:
    assert count_of(events, 0, 1) + count_of(events, 1, 3) + count_of(events, 4, 46) == events
    assert len(rows_of(NexmarkKind.BIDS, NexmarkConfig(events=events))) == count_of(events, 4, 46)


def test_rates_and_ends() -> None:
    assert NexmarkSource().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert NexmarkSource(config=CONFIG).boundedness is Boundedness.BOUNDED
    rig = SourceRig(NexmarkSource(NexmarkKind.BIDS, NexmarkConfig(events_per_second=1000)))
    for _ in range(102):
        rig.clock.advance(20)
        rig.step(10_000)
    rig.close()
    assert 1700 < len(rig.values) <= 2.1 * 920
    with pytest.raises(ValueError, match="event_time_rate"):
        NexmarkConfig(event_time_rate=0)
    with pytest.raises(ValueError, match="negative"):
        NexmarkConfig(events=-1)

"""Columns of Nexmark's persons, auctions and bids, made with numpy from the numbers of events.

Everything is drawn from an event's number and the seed by a mixing function. Texts are picked from pools, which are
made once per seed and process: 5 ns a value instead of 100. Source: Apache Beam and Flink, the Nexmark generators
(PersonGenerator, AuctionGenerator, BidGenerator); ratios and ids are theirs.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import RowTypeInfo, Types
from runtime.connectors.field_generators import random_bits
from runtime.core.arrow import arrow_schema

Longs = npt.NDArray[np.int64]

PERSON_PROPORTION = 1
AUCTION_PROPORTION = 3
BID_PROPORTION = 46
TOTAL_PROPORTION = 50

FIRST_PERSON_ID = 1000
FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID = 10
CATEGORIES = 5
#: People who are active at a time, and how many of them are yet to come: some sell and bid before they are seen.
ACTIVE_PEOPLE = 1000
PERSON_ID_LEAD = 10
IN_FLIGHT_AUCTIONS = 100
AUCTION_ID_LEAD = 10
#: One id in so many is hot, and all but one of so many sellers, auctions and bidders are hot ones.
HOT_EVERY = 100
HOT_SELLERS = 4
HOT_AUCTIONS = 2
HOT_BIDDERS = 4
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
#: 2015-07-15 00:00:00 UTC, as the published generators begin
FIRST_EVENT_MS = 1_436_918_400_000

PERSON_TYPE = Types.ROW_NAMED(
    ["id", "name", "email_address", "credit_card", "city", "state", "date_time", "extra"],
    [
        Types.LONG(),
        *[Types.STRING()] * 5,
        Types.SQL_TIMESTAMP(),
        Types.STRING(),
    ],
)
AUCTION_TYPE = Types.ROW_NAMED(
    [
        "id",
        "item_name",
        "description",
        "initial_bid",
        "reserve",
        "date_time",
        "expires",
        "seller",
        "category",
        "extra",
    ],
    [
        Types.LONG(),
        Types.STRING(),
        Types.STRING(),
        Types.LONG(),
        Types.LONG(),
        Types.SQL_TIMESTAMP(),
        Types.SQL_TIMESTAMP(),
        Types.LONG(),
        Types.LONG(),
        Types.STRING(),
    ],
)
BID_TYPE = Types.ROW_NAMED(
    ["auction", "bidder", "price", "channel", "url", "date_time", "extra"],
    [
        Types.LONG(),
        Types.LONG(),
        Types.LONG(),
        Types.STRING(),
        Types.STRING(),
        Types.SQL_TIMESTAMP(),
        Types.STRING(),
    ],
)
EVENT_TYPE = Types.ROW_NAMED(
    ["event_type", "person", "auction", "bid"], [Types.INT(), PERSON_TYPE, AUCTION_TYPE, BID_TYPE]
)
"""An event of any kind: 0, 1 or 2 for person, auction or bid; the other two are null."""


class NexmarkKind(enum.Enum):
    """Kind of events that a source emits."""

    EVENTS = "events"
    PERSONS = "persons"
    AUCTIONS = "auctions"
    BIDS = "bids"


@dataclass(frozen=True, slots=True)
class NexmarkConfig:
    """Selects the events.

    Raises:
        ValueError: a number is out of range.
    """

    events: int | None = None
    """Events of all kinds; None = without end."""
    seed: int = 0
    events_per_second: float | None = None
    """Rate at which events of all kinds are emitted; None = as fast as possible."""
    event_time_rate: int = 10_000
    """Events of all kinds per second of event time; at least 1. It decides what is in a window, whatever the speed."""
    first_event_ms: int = FIRST_EVENT_MS
    """Time of event 0, ms since the epoch."""

    def __post_init__(self) -> None:
        if self.event_time_rate < 1:
            raise ValueError(f"event_time_rate must be at least 1, not {self.event_time_rate}")
        if self.events is not None and self.events < 0:
            raise ValueError(f"the number of events must not be negative: {self.events}")

    def times(self, numbers: Longs) -> Longs:
        """Return the event times of events, ms."""
        return self.first_event_ms + numbers * 1000 // self.event_time_rate


class Draws:
    """Random numbers for events, a new column with each call.

    Args:
        numbers: of the events, shape (n,).
        seed: of this kind of events.
    """

    def __init__(self, numbers: Longs, seed: int) -> None:
        self._numbers = numbers
        self._seed = seed * 64
        self._calls = 0

    def bits(self) -> npt.NDArray[np.uint64]:
        """Return 64 random bits each."""
        self._calls += 1
        return random_bits(self._numbers, self._seed + self._calls)

    def below(self, limit: int) -> Longs:
        """Return whole numbers in [0, limit)."""
        return scaled(self.bits(), limit)


def scaled(bits: npt.NDArray[np.uint64], limits: int | Longs) -> Longs:
    """Return whole numbers in [0, limit) from the upper 31 of 64 random bits; multiplying is faster than modulo.

    Args:
        bits: shape (n,).
        limits: 1..2^31, one for all or shape (n,).
    """
    return ((bits >> np.uint64(33)).astype(np.int64) * limits) >> 31


def bids(numbers: Longs, config: NexmarkConfig) -> pa.RecordBatch:
    """Return the bids with these event numbers.

    Args:
        numbers: shape (n,), places 4..49 of each 50.
        config: which events there are.

    Returns:
        Columns of BID_TYPE.
    """
    draw = Draws(numbers, config.seed * 4 + 2)
    last_auction = _last_auction(numbers)
    hot_auction = last_auction // HOT_EVERY * HOT_EVERY
    auction = np.where(draw.below(HOT_AUCTIONS) > 0, hot_auction, _next_auction(last_auction, draw))
    last_person = _last_person(numbers)
    hot_bidder = last_person // HOT_EVERY * HOT_EVERY + 1
    bidder = np.where(draw.below(HOT_BIDDERS) > 0, hot_bidder, _next_person(last_person, draw))
    channel = np.where(draw.below(2) > 0, draw.below(len(HOT_CHANNELS)), draw.below(CHANNELS) + len(HOT_CHANNELS))
    pools = _pools(config.seed)
    arrays = [
        pa.array(auction + FIRST_AUCTION_ID),
        pa.array(bidder + FIRST_PERSON_ID),
        pa.array(_prices(draw)),
        _pick(pools.channels, channel),
        _pick(pools.urls, channel),
        _timestamps(config.times(numbers)),
        _pick(pools.extras, draw.below(len(pools.extras))),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMAS[NexmarkKind.BIDS])


def auctions(numbers: Longs, config: NexmarkConfig) -> pa.RecordBatch:
    """Return the auctions with these numbers, places 1..3 of each 50, like `bids`; columns of AUCTION_TYPE."""
    draw = Draws(numbers, config.seed * 4 + 1)
    last_person = _last_person(numbers)
    hot_seller = last_person // HOT_EVERY * HOT_EVERY
    seller = np.where(draw.below(HOT_SELLERS) > 0, hot_seller, _next_person(last_person, draw))
    initial = _prices(draw)
    times = config.times(numbers)
    # so long, on average, that there are about IN_FLIGHT_AUCTIONS open ones
    horizon_ms = config.times(numbers + IN_FLIGHT_AUCTIONS * TOTAL_PROPORTION // AUCTION_PROPORTION) - times
    expires = times + 1 + scaled(draw.bits(), np.maximum(horizon_ms * 2, 1))
    pools = _pools(config.seed)
    arrays = [
        pa.array(_last_auction(numbers) + FIRST_AUCTION_ID),
        _pick(pools.names, draw.below(len(pools.names))),
        _pick(pools.descriptions, draw.below(len(pools.descriptions))),
        pa.array(initial),
        pa.array(initial + _prices(draw)),
        _timestamps(times),
        _timestamps(expires),
        pa.array(seller + FIRST_PERSON_ID),
        pa.array(draw.below(CATEGORIES) + FIRST_CATEGORY_ID),
        _pick(pools.extras, draw.below(len(pools.extras))),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMAS[NexmarkKind.AUCTIONS])


def persons(numbers: Longs, config: NexmarkConfig) -> pa.RecordBatch:
    """Return the persons with these numbers, place 0 of each 50, like `bids`; columns of PERSON_TYPE."""
    draw = Draws(numbers, config.seed * 4)
    pools = _pools(config.seed)
    name, city = draw.below(len(pools.people)), draw.below(len(_CITIES))
    arrays = [
        pa.array(_last_person(numbers) + FIRST_PERSON_ID),
        _pick(pools.people, name),
        _pick(pools.emails, draw.below(len(pools.emails))),
        _pick(pools.cards, draw.below(len(pools.cards))),
        _pick(pools.cities, city),
        _pick(pools.states, city),
        _timestamps(config.times(numbers)),
        _pick(pools.extras, draw.below(len(pools.extras))),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMAS[NexmarkKind.PERSONS])


def events(numbers: Longs, config: NexmarkConfig) -> pa.RecordBatch:
    """Return the events with these numbers, like `bids`; columns of EVENT_TYPE."""
    place = numbers % TOTAL_PROPORTION
    kind = (place >= PERSON_PROPORTION).astype(np.int32)
    kind += place >= PERSON_PROPORTION + AUCTION_PROPORTION
    arrays: list[pa.Array] = [pa.array(kind)]
    for number, make in enumerate((persons, auctions, bids)):
        wanted = kind == number
        made = make(numbers[wanted], config).to_struct_array()
        # rows of other kinds are null: an index that is null gives null
        arrays.append(made.take(pa.array(np.cumsum(wanted) - 1, mask=~wanted)))
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMAS[NexmarkKind.EVENTS])


# --- parts ------------------------------------------------------------------------------------------------------------


def _last_person(numbers: Longs) -> Longs:
    """Return the number of the last person up to each event; numbers of persons begin at 0."""
    return numbers // TOTAL_PROPORTION


def _last_auction(numbers: Longs) -> Longs:
    """Return the number of the last auction up to each event: -1 for the very first, which is a person."""
    group, place = np.divmod(numbers, TOTAL_PROPORTION)
    last: Longs = group * AUCTION_PROPORTION + np.minimum(place - PERSON_PROPORTION, AUCTION_PROPORTION - 1)
    return last


def _next_person(last_person: Longs, draw: Draws) -> Longs:
    """Return one of the active people, or of those who come next."""
    people = last_person + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    return people - active + scaled(draw.bits(), active + PERSON_ID_LEAD)


def _next_auction(last_auction: Longs, draw: Draws) -> Longs:
    """Return one of the auctions in flight, or of those that come next."""
    first = np.maximum(last_auction - IN_FLIGHT_AUCTIONS, 0)
    return first + scaled(draw.bits(), last_auction - first + 1 + AUCTION_ID_LEAD)


def _prices(draw: Draws) -> Longs:
    """Return cents from 1 to 1,000,000 dollars, evenly spread in their logarithm; by a table: powers take 20 ns
    each.
    """
    prices: Longs = _PRICES[draw.below(len(_PRICES))]
    return prices


_PRICES = np.rint(np.power(10.0, np.arange(1 << 16) * 6 / (1 << 16)) * 100).astype(np.int64)

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Redmond", "WA"),
    ("Seattle", "WA"),
    ("Kent", "WA"),
    ("Cheyenne", "WY"),
)
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")


@dataclass(frozen=True, slots=True)
class _Pools:
    """Texts to pick from."""

    channels: pa.Array
    urls: pa.Array
    people: pa.Array
    emails: pa.Array
    cards: pa.Array
    cities: pa.Array
    states: pa.Array
    names: pa.Array
    descriptions: pa.Array
    extras: pa.Array


@functools.lru_cache(maxsize=4)
def _pools(seed: int) -> _Pools:
    paths = _words(len(HOT_CHANNELS) + CHANNELS, 15, 15, seed * 8 + 1)
    channel_ids = ["", *map(str, range(1, len(paths)))]
    return _Pools(
        channels=pa.array([*HOT_CHANNELS, *(f"channel-{i}" for i in range(CHANNELS))]),
        urls=pa.array(
            [
                f"https://www.nexmark.com/{path[:5]}/{path[5:10]}/{path[10:]}/item.htm?query=1"
                + (f"&channel_id={number}" if number else "")
                for path, number in zip(paths, channel_ids, strict=True)
            ]
        ),
        people=pa.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES]),
        emails=pa.array(
            [
                f"{a}@{b}.com"
                for a, b in zip(_words(4096, 4, 7, seed * 8 + 2), _words(4096, 3, 5, seed * 8 + 3), strict=True)
            ]
        ),
        cards=pa.array(_cards(4096, seed * 8 + 4)),
        cities=pa.array([city for city, _ in _CITIES]),
        states=pa.array([state for _, state in _CITIES]),
        names=pa.array(_words(4096, 3, 20, seed * 8 + 5)),
        descriptions=pa.array(_words(4096, 3, 100, seed * 8 + 6)),
        extras=pa.array(_words(4096, 20, 60, seed * 8 + 7)),
    )


def _words(count: int, shortest: int, longest: int, seed: int) -> list[str]:
    """Return words of small letters of any of these lengths."""
    numbers = np.arange(count, dtype=np.int64)
    lengths = shortest + scaled(random_bits(numbers, seed), longest - shortest + 1)
    letters = scaled(random_bits(np.arange(count * longest, dtype=np.int64), seed + 1_000_003), 26) + ord("a")
    text = letters.astype(np.uint8).tobytes().decode()
    return [text[i * longest : i * longest + length] for i, length in enumerate(lengths.tolist())]


def _cards(count: int, seed: int) -> list[str]:
    numbers = scaled(random_bits(np.arange(count * 4, dtype=np.int64), seed), 10_000).tolist()
    return [" ".join(f"{n:04d}" for n in numbers[i : i + 4]) for i in range(0, count * 4, 4)]


def _pick(pool: pa.Array, index: Longs) -> pa.Array:
    return pool.take(pa.array(index))


def _timestamps(times: Longs) -> pa.Array:
    return pa.array(times * 1000).view(_TIMESTAMP)


_TIMESTAMP = pa.timestamp("us")

TYPES: dict[NexmarkKind, RowTypeInfo] = {
    NexmarkKind.EVENTS: EVENT_TYPE,
    NexmarkKind.PERSONS: PERSON_TYPE,
    NexmarkKind.AUCTIONS: AUCTION_TYPE,
    NexmarkKind.BIDS: BID_TYPE,
}
_SCHEMAS = {kind: arrow_schema(row_type) for kind, row_type in TYPES.items()}

MAKERS: dict[NexmarkKind, Callable[[Longs, NexmarkConfig], pa.RecordBatch]] = {
    NexmarkKind.EVENTS: events,
    NexmarkKind.PERSONS: persons,
    NexmarkKind.AUCTIONS: auctions,
    NexmarkKind.BIDS: bids,
}
#: kind → its first place in each 50 events, and the number of its places
PLACES: dict[NexmarkKind, tuple[int, int]] = {
    NexmarkKind.EVENTS: (0, TOTAL_PROPORTION),
    NexmarkKind.PERSONS: (0, PERSON_PROPORTION),
    NexmarkKind.AUCTIONS: (PERSON_PROPORTION, AUCTION_PROPORTION),
    NexmarkKind.BIDS: (PERSON_PROPORTION + AUCTION_PROPORTION, BID_PROPORTION),
}

"""NexmarkSource: the events of an online auction: 1 person, 3 auctions and 46 bids in every 50, in event-time order.

An event depends on its number and the seed only, so that parallelism, splits and restores change nothing. The streams
of one kind hold exactly the events of that kind of the mixed stream, and make nothing else. Event times are set
already. Source: Nexmark (Tucker et al.), as in Apache Beam's and Flink's generators.
"""

from __future__ import annotations

import numpy as np

from runtime.common.typeinfo import TypeInformation
from runtime.connectors.index_source import IndexSource
from runtime.connectors.nexmark_columns import (
    AUCTION_TYPE,
    BID_TYPE,
    EVENT_TYPE,
    MAKERS,
    PERSON_TYPE,
    PLACES,
    TOTAL_PROPORTION,
    TYPES,
    NexmarkConfig,
    NexmarkKind,
)
from runtime.core.batch import RecordBatch

__all__ = [
    "AUCTION_TYPE",
    "BID_TYPE",
    "EVENT_TYPE",
    "PERSON_TYPE",
    "NexmarkConfig",
    "NexmarkKind",
    "NexmarkSource",
    "count_of",
]


class NexmarkSource(IndexSource):
    """Emits events of one kind, or of all kinds as EVENT_TYPE."""

    split_format = "indexes of Nexmark events"

    def __init__(self, kind: NexmarkKind = NexmarkKind.EVENTS, config: NexmarkConfig | None = None) -> None:
        self.kind = kind
        self.config = config = config or NexmarkConfig()
        offset, share = PLACES[kind]
        count = None if config.events is None else count_of(config.events, offset, share)
        rate = None if config.events_per_second is None else config.events_per_second * share / TOTAL_PROPORTION
        super().__init__(count, rate)
        self._offset = offset
        self._share = share

    def produced_type(self) -> TypeInformation | None:
        return TYPES[self.kind]

    def generate(self, start: int, stop: int) -> RecordBatch:
        index = np.arange(start, stop, dtype=np.int64)
        numbers = index // self._share * TOTAL_PROPORTION + self._offset + index % self._share
        columns = MAKERS[self.kind](numbers, self.config)
        return RecordBatch.of_arrow(columns, TYPES[self.kind], self.config.times(numbers))


def count_of(events: int, offset: int, share: int) -> int:
    """Return how many of the first `events` events lie at places [offset, offset + share) of each 50."""
    groups, rest = divmod(events, TOTAL_PROPORTION)
    return groups * share + min(max(rest - offset, 0), share)

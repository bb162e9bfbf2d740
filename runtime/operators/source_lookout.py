"""SourceLookout: looks between two micro-batches whether a subtask of a source would find something to read.

It opens the splits with which the next batch goes on, as the batch will, and throws its readers away when they have
found something: the batch reads it. One thread, which it does not block.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.metrics import MetricGroup
from runtime.operators.source import ReaderContext, ReadStatus, Source, SplitReader
from runtime.operators.source_splits import ReaderClock, SplitState

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    """A split that is open."""

    reader: SplitReader
    was_idle: bool
    next_ms: int | None = None
    """Wall-clock time before which its reader has nothing."""


class SourceLookout:
    """Looks for one subtask.

    Args:
        source: the source.
        splits: those that the subtask goes on with, in their order.
        subtask_index, parallelism: of the subtask.
        configuration: of the job.
        clock: of the readers.
    """

    def __init__(
        self,
        source: Source,
        splits: Iterable[SplitState],
        subtask_index: int,
        parallelism: int,
        configuration: Configuration,
        clock: Clock,
    ) -> None:
        self._source = source
        self._clock = clock
        #: others wait for these, and are not read
        self._splits = list(islice(splits, source.splits_at_once))
        self._place = subtask_index, parallelism
        self._configuration = configuration
        self._watched: list[_Watched] = []
        self._has_failed = False

    def has_something(self) -> bool:
        """Return whether a batch would find something, or an error, which it is to tell itself."""
        if self._has_failed:
            return True
        try:
            while self._splits:
                self._watched.append(self._opened(self._splits.pop(0)))
            return any(self._has_news(watched) for watched in self._watched)
        except Exception:
            logger.debug("a look at a source has failed", exc_info=True)
            return True

    def is_looking(self) -> bool:
        """Return whether a reader does not know yet what there is."""
        try:
            return any(watched.reader.is_looking() for watched in self._watched)
        except Exception:
            # an error of the reader's, which a batch is to tell
            self._has_failed = True
            return False

    def close(self) -> None:
        """Close all readers; idempotent."""
        while self._watched:
            try:
                self._watched.pop().reader.close()
            except Exception:
                logger.debug("a reader that has looked at a source could not be closed", exc_info=True)

    def _opened(self, state: SplitState) -> _Watched:
        clock = ReaderClock(self._clock, state.read_ms)
        context = ReaderContext(*self._place, self._configuration, clock, MetricGroup())
        reader = self._source.create_reader(state.split, state.position, context)
        clock.arrive()
        return _Watched(reader, state.is_idle)

    def _has_news(self, watched: _Watched) -> bool:
        if watched.next_ms is not None and self._clock.now_ms() < watched.next_ms:
            return False
        status = watched.reader.look()
        watched.next_ms = watched.reader.next_read_ms()
        # event time need not wait any more for one that was not idle
        return status is None or (status is ReadStatus.IDLE and not watched.was_idle)

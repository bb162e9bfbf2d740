"""SourceCoordinator: hands the splits of one source to its subtasks, which ask for one at a time.

It lives in the slot of subtask 0 and is called by that slot's loop; readers, wherever they are, talk to it with the
events below. An assignment counts as in flight until the same subtask asks again, so that what a lost message or a
lost reader leaves behind is known. Source: Flink, SourceCoordinator and SplitAssignmentTracker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.operators.source import NoSplit, Source, SourceError, SourceSplit
from runtime.operators.watermark_alignment import AlignmentGroup, AlignWatermark, ReportWatermark, SourceWatermark
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot, Redistribution
from runtime.state.state_meta import json_of

COORDINATOR_STATE = "source-coordinator"
"""Name of the operator state under which the coordinator's snapshot is stored, with subtask 0's."""
RECEIVED_STATE = "source-received"
"""Name of the readers' operator state: the number of the last assignment that each has received."""


@dataclass(frozen=True, slots=True)
class RequestSplit:
    """Reader → coordinator: I have nothing to read."""


@dataclass(frozen=True, slots=True)
class ResyncSplits:
    """Reader → coordinator: events between us may have been lost; this is what I know."""

    received: int | None
    """Number of the last assignment that has come; None: none has."""
    is_asking: bool
    """Whether a request was made that has not been answered with a split, or with the news that there are some."""


@dataclass(frozen=True, slots=True)
class AssignSplit:
    """Coordinator → reader: read this, from its start."""

    number: int
    """Number of the assignment, unique for the life of the job; it only grows."""
    split: Any
    """JSON of the split, from `Source.split_to_json`."""


@dataclass(frozen=True, slots=True)
class NoSplitNow:
    """Coordinator → reader: none at the moment; SplitsAvailable will come."""


@dataclass(frozen=True, slots=True)
class SplitsAvailable:
    """Coordinator → reader: ask again."""


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """Coordinator → reader: there will be none any more."""


CoordinatorEvent = AssignSplit | NoSplitNow | SplitsAvailable | NoMoreSplits | AlignWatermark
Reply = Callable[[int, object], None]
"""Sends an event to a subtask."""


class SourceCoordinator:
    """Runs a source's enumerator.

    Args:
        source: the source.
        parallelism: number of subtasks that will ask.
        restored: subtask 0's snapshot of the operator, which holds what `snapshot` returned under COORDINATOR_STATE;
            None at the first start.
        alignment: the source's view of its alignment group; None if it is in none.

    Raises:
        SourceError: there is nothing to read; the message says what and where.
    """

    def __init__(
        self,
        source: Source,
        parallelism: int,
        restored: OperatorSnapshot | None,
        alignment: AlignmentGroup | None = None,
    ) -> None:
        self._source = source
        self._alignment = alignment
        saved = _decode(restored)
        self._parallelism = parallelism
        self._next_number: int = saved["next_number"] if saved else 0
        self._enumerator = source.create_enumerator(parallelism, saved["enumerator"] if saved else None)
        #: subtask → its assignment that no later request has confirmed
        self._in_flight: dict[int, tuple[int, SourceSplit]] = {}
        #: by subtask, splits that were dealt before it has asked, and what it is told when it has had them
        self._ahead: dict[int, list[tuple[int, SourceSplit]]] = {}
        self._after_ahead: dict[int, NoSplitNow | NoMoreSplits] = {}
        #: subtasks for which there was no split when one was dealt ahead last
        self._found_none: set[int] = set()
        self._waiting: set[int] = set()
        self._replies: dict[int, Reply] = {}
        if saved and saved["in_flight"]:
            # an assigned split is in its reader's snapshot unless the reader had not received it yet
            held = set(saved["received"])
            lost = [source.split_from_json(split) for number, split in saved["in_flight"] if number not in held]
            self._enumerator.add_splits_back(lost)

    def handle_event(self, from_subtask: int, event: object, reply: Reply) -> None:
        """Answer a reader's event, now or, if there is no split at the moment, again when `discover` finds one.

        Raises:
            TypeError: the event is not a reader's.
        """
        if isinstance(event, ReportWatermark) and self._alignment is not None:
            reply(from_subtask, self._alignment.report(from_subtask, event.watermark))
            return
        if isinstance(event, ResyncSplits):
            self._resync(from_subtask, event, reply)
        elif isinstance(event, RequestSplit):
            self._deal(from_subtask, reply)
        else:
            raise TypeError(f"a source coordinator cannot handle {event!r}")

    def _resync(self, from_subtask: int, known: ResyncSplits, reply: Reply) -> None:
        """Answer a reader again whose request, or the answer to it, may have been lost."""
        if not known.is_asking:
            return
        number, split = self._in_flight.get(from_subtask, (None, None))
        if number is None or split is None or (known.received is not None and number <= known.received):
            self._deal(from_subtask, reply)
        else:
            # never a new one: the enumerator has no longer what was dealt
            reply(from_subtask, AssignSplit(number, self._source.split_to_json(split)))

    def _deal(self, from_subtask: int, reply: Reply) -> None:
        self._in_flight.pop(from_subtask, None)
        split = self._enumerator.next_split(from_subtask)
        if isinstance(split, SourceSplit):
            number = self._next_number
            self._next_number += 1
            self._in_flight[from_subtask] = (number, split)
            reply(from_subtask, AssignSplit(number, self._source.split_to_json(split)))
        elif split is NoSplit.LATER:
            self._waiting.add(from_subtask)
            self._replies[from_subtask] = reply
            reply(from_subtask, NoSplitNow())
        else:
            reply(from_subtask, NoMoreSplits())

    def deal_ahead(self, splits: int) -> None:
        """Deal each subtask up to so many splits before it asks, in turn, for a batch in which none can be dealt."""
        for place in range(splits):
            for subtask in range(self._parallelism):
                dealt = self._ahead.setdefault(subtask, [])
                if len(dealt) <= place:
                    self._deal_ahead(subtask, dealt)

    def deal_all(self) -> None:
        """Deal all splits of a bounded source, in turn, before anybody asks.

        Raises:
            SourceError: the enumerator does not know all of them yet.
        """
        asking = list(range(self._parallelism))
        while asking:
            asking = [each for each in asking if self._deal_ahead(each, self._ahead.setdefault(each, []))]
        if NoSplitNow() in self._after_ahead.values():
            raise SourceError("the source does not know yet where its input ends, which a batch needs")

    def _deal_ahead(self, subtask: int, dealt: list[tuple[int, SourceSplit]]) -> bool:
        """Deal a subtask another split; returns whether there was one."""
        split = self._enumerator.next_split(subtask)
        if not isinstance(split, SourceSplit):
            self._after_ahead[subtask] = NoSplitNow() if split is NoSplit.LATER else NoMoreSplits()
            self._found_none.add(subtask)
            return False
        dealt.append((self._next_number, split))
        self._next_number += 1
        self._after_ahead[subtask] = NoSplitNow()
        self._found_none.discard(subtask)
        return True

    @property
    def may_have_more(self) -> bool:
        """Return whether there may be splits beyond those that were dealt ahead: nobody has looked."""
        return len(self._found_none) < self._parallelism

    def dealt_ahead(self, subtask: int) -> Sequence[AssignSplit | NoSplitNow | NoMoreSplits]:
        """Return what a subtask may read of what was dealt ahead, and last the answer to its next request."""
        dealt = self._ahead.get(subtask, ())
        assigned = [AssignSplit(number, self._source.split_to_json(split)) for number, split in dealt]
        return [*assigned, self._after_ahead.get(subtask, NoSplitNow())]

    def confirm(self, numbers: Sequence[int]) -> None:
        """Forget splits that were dealt ahead: they are in the snapshots of their readers."""
        for subtask, dealt in self._ahead.items():
            self._ahead[subtask] = [item for item in dealt if item[0] not in numbers]

    def hear(self, message: SourceWatermark) -> None:
        """Take the news of how far another source of the job is, from its coordinator."""
        if self._alignment is not None:
            self._alignment.hear(message)

    def news(self) -> SourceWatermark | None:
        """Return what to tell the coordinators of the job's other sources, if anything; ask after each event."""
        return None if self._alignment is None else self._alignment.news()

    def forget_news(self) -> None:
        """Tell the coordinators of the job's other sources again: what they were told may not have reached them."""
        if self._alignment is not None:
            self._alignment.forget_news()

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        """Take splits back from a reader that was lost, and tell the readers that wait for one."""
        self._enumerator.add_splits_back(splits)
        self.wake_waiting()

    def discovery_delay_ms(self) -> int | None:
        """Return how long to wait before `discover` is called, see SplitEnumerator; None = no more."""
        return self._enumerator.discovery_delay_ms()

    def is_discovering(self) -> bool:
        """Return whether a search for new splits is under way, see SplitEnumerator."""
        return self._enumerator.is_discovering()

    def discover(self) -> bool:
        """Let the enumerator look for new splits, and the readers that wait ask again if there are any.

        Returns:
            Whether there are.

        Raises:
            SourceError: the place where splits are found cannot be read.
        """
        found = self._enumerator.discover()
        if found:
            self.wake_waiting()
        return found

    def wake_waiting(self) -> None:
        """Let the readers that were told to wait ask again."""
        waiting, self._waiting = sorted(self._waiting), set()
        for subtask in waiting:
            self._replies.pop(subtask)(subtask, SplitsAvailable())

    def snapshot(self) -> OperatorStateSnapshot:
        """Return the enumerator's state and the assignments in flight, to be stored with subtask 0 as
        COORDINATOR_STATE.

        Take it before the readers' snapshots, and let no assignment reach a reader between the two: a split that
        the enumerator still holds here must not be in a reader's snapshot.
        """
        value = {
            "next_number": self._next_number,
            "enumerator": self._enumerator.snapshot(),
            "in_flight": [
                (n, self._source.split_to_json(split))
                for n, split in (*self._in_flight.values(), *(item for dealt in self._ahead.values() for item in dealt))
            ],
        }
        return OperatorStateSnapshot(
            Redistribution.UNION, [json.dumps(value).encode()], json_of(self._source.split_format)
        )

    def close(self) -> None:
        """Release the enumerator; idempotent."""
        self._enumerator.close()


def _decode(restored: OperatorSnapshot | None) -> dict[str, Any] | None:
    state = None if restored is None else restored.operator_states.get(COORDINATOR_STATE)
    if restored is None or state is None or not state.items:
        return None
    value: dict[str, Any] = json.loads(state.items[0])
    received = restored.operator_states.get(RECEIVED_STATE)
    value["received"] = [] if received is None else [json.loads(item) for item in received.items]
    return value

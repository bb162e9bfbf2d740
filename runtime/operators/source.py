"""The public interface of sources: splits with positions, assigned by an enumerator, read by split readers.

A Source describes; it travels to the slots. Its SplitEnumerator is made once, in the slot of subtask 0; a SplitReader
is made per split that is being read. All are called by the slot's loop thread and must not block: what has nothing to
give says so. Source: Flink, FLIP-27 (Source, SplitEnumerator, SourceReader).
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.core.column_condition import ColumnCondition
from runtime.metrics import MetricGroup
from runtime.operators.output_tag import OutputTag


class Boundedness(enum.Enum):
    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """A part of a source that one reader reads in order. Subclasses add what the reader needs; all fields picklable."""

    split_id: str


class NoSplit(enum.Enum):
    """Answers of an enumerator that has no split to give."""

    LATER = "later"
    """None at the moment; ask again when told."""
    NEVER = "never"
    """There will be none any more."""


class ReadStatus(enum.Enum):
    """Meaning of a read that returned no batch."""

    NOTHING_YET = "nothing yet"
    IDLE = "idle"
    """Nothing yet, and event time need not wait for the split until it has something. Source: Flink, markIdle."""
    END_OF_SPLIT = "end of split"


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """Tells a split reader about its surroundings."""

    subtask_index: int
    parallelism: int
    configuration: Configuration
    clock: Clock
    metrics: MetricGroup

    @property
    def max_record_bytes(self) -> int:
        """Return the maximum size of one record, bytes; a reader that searches for a record's end fails beyond it."""
        return self.configuration.get(options.MAX_RECORD_BYTES)


class SplitReader(ABC):
    """Reads one split from a position on."""

    @abstractmethod
    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        """Return the next records, at most `max_rows` (at least 1), or why there are none. Must return promptly.

        Marks of the batch are watermarks that the source itself knows; they count beside those of the strategy. A batch
        may have marks and no rows.
        """

    def prepare(self) -> bool:
        """Do anything slow before the next `read` can give records, such as decoding a block of them.

        A step of its own, so that the size of slices follows from what the records cost behind the source. `read` does
        without it.

        Returns:
            Whether there was something to do; it is called again until there is not.
        """
        return False

    @property
    @abstractmethod
    def position(self) -> Any:
        """Return the position of the next `read`: a JSON-serializable value that `Source.create_reader` accepts."""

    def next_read_ms(self) -> int | None:
        """Return the wall-clock time of the next read, after NOTHING_YET or IDLE; None = after the poll interval (50
        ms).
        """
        return None

    def look(self) -> ReadStatus | None:
        """Return why a read would give nothing, as `read` says it; None = it would give something, or end the split.

        Asked between micro-batches of a reader that is closed when there is something: what it has read is read again.
        """
        result = self.read(1)
        return None if isinstance(result, RecordBatch) or result is ReadStatus.END_OF_SPLIT else result

    def is_looking(self) -> bool:
        """Return whether, after NOTHING_YET, it is not known yet what there is to be read: a micro-batch waits for that
        in place of ending without it. For a reader that reads on another thread.
        """
        return False

    def pending_records(self) -> int | None:
        """Return how many records of the split are there to be read; None = unknown."""
        return None

    def notify_snapshot(self, checkpoint_id: int) -> None:
        """Note that the position of now goes into a checkpoint; see `notify_checkpoint_complete`."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint of the job has completed: a restore goes back to it, or to a later one."""

    def awaits_checkpoint(self) -> bool:
        """Return whether the reader, at the end of its split, is to hear of one more checkpoint before it is closed."""
        return False

    def take_dead_letters(self) -> RecordBatch | None:
        """Return what the reads since the last call have set aside for `Source.dead_letter_tag`; None if nothing."""
        return None

    def close(self) -> None:
        """Release everything; idempotent."""


class SplitEnumerator(ABC):
    """Assigns splits to the source's subtasks, which request one at a time."""

    @abstractmethod
    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        """Return a split for that subtask, or why there is none."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        """Take back assigned splits whose reading is not covered by any snapshot."""

    @abstractmethod
    def snapshot(self) -> Any:
        """Return the unassigned splits: a JSON-serializable value that `Source.create_enumerator` accepts."""

    def discovery_delay_ms(self) -> int | None:
        """Return how long to wait before `discover`; asked at the start and after each call. None = no more."""
        return None

    def discover(self) -> bool:
        """Look for new splits, promptly; returns whether subtasks that were told NoSplit.LATER should ask again.

        Raises:
            SourceError: the place where splits are found cannot be read.
        """
        return False

    def is_discovering(self) -> bool:
        """Return whether a search for new splits is under way: what there is now may not be known yet."""
        return False

    def close(self) -> None:
        """Release everything; idempotent."""


class Source(ABC):
    """A stream's origin. Instances are immutable and picklable."""

    boundedness: Boundedness = Boundedness.BOUNDED
    splits_at_once: int = 1
    """Number of splits that a subtask holds open and reads in turn. More than 1 suits splits without end (partitions of
    a log): the source's watermark is then the least of theirs, and each can be paused for watermark alignment.
    """
    is_outside: bool = False
    """Whether records come from a system that runs beside the job, and on whose time: a preview of the job does not
    simulate its clock then.
    """
    survives_batches: bool = True
    """Whether a reader may be closed, and another one go on at its position, with each micro-batch: False where records
    that were received and not read would be lost, or the pace."""
    split_format: str = ""
    """Name of the form of splits and positions in snapshots: state of a source of another form is refused. "" = it is
    not known, and not compared."""
    former_split_formats: Sequence[str] = ()
    """Names of forms that earlier versions wrote, and that this source reads as well."""
    dead_letter_tag: OutputTag | None = None
    """Side output for what readers set aside instead of failing; see `SplitReader.take_dead_letters`."""

    @abstractmethod
    def produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None means Python objects."""

    def reading(self, columns: frozenset[str], conditions: Sequence[ColumnCondition]) -> Source:
        """Return the same source for readers that look at some columns of its records only.

        What it returns may give null for a column that is not among them, and may leave out rows that do not meet the
        conditions. All else stays: rows and their order, errors and bad records, splits, positions and type.

        Args:
            columns: names; may be empty.
            conditions: every row that is looked at meets all of them; those that do not are dropped behind the source.

        Returns:
            The source itself, if there is nothing that it can leave out; the default.
        """
        return self

    def paths(self) -> Sequence[str]:
        """Return the paths of files that are read where the tasks run, as the user wrote them."""
        return ()

    @abstractmethod
    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Make the enumerator, from the start or from what its `snapshot` returned.

        Raises:
            SourceError: there is nothing to read (a missing file, for example); the message says what and where.
        """

    @abstractmethod
    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        """Open a split at the start (position None) or at a position that a reader of it returned."""

    @abstractmethod
    def split_to_json(self, split: SourceSplit) -> Any:
        """Return a JSON-serializable value from which `split_from_json` makes an equal split; for snapshots."""

    @abstractmethod
    def split_from_json(self, value: Any) -> SourceSplit: ...


class SourceError(Exception):
    """A source cannot be opened or read; the message names it."""

    #: reports show the message alone, without the task and this class
    is_self_explanatory = True

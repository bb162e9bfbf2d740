"""Source, Sink and DeliveryGuarantee, at PyFlink's module path, and the interfaces for writing a source or a sink.

Custom sources and sinks are Java's in Flink; the interfaces here are FLIP-27's and Sink V2's in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.common.exclusions import refusing_module
from runtime.connectors.split_queue import SplitQueue as SplitQueue
from runtime.core.batch import RecordBatch as RecordBatch
from runtime.operators.sink import CommitTally as CommitTally
from runtime.operators.sink import Committer as Committer
from runtime.operators.sink import DeliveryGuarantee as DeliveryGuarantee
from runtime.operators.sink import Sink as Sink
from runtime.operators.sink import SinkError as SinkError
from runtime.operators.sink import SinkSetupError as SinkSetupError
from runtime.operators.sink import SinkWriter as SinkWriter
from runtime.operators.sink import SnapshotUnusableError as SnapshotUnusableError
from runtime.operators.sink import Sweeper as Sweeper
from runtime.operators.sink import WriterContext as WriterContext
from runtime.operators.source import Boundedness as Boundedness
from runtime.operators.source import NoSplit as NoSplit
from runtime.operators.source import ReaderContext as ReaderContext
from runtime.operators.source import ReadStatus as ReadStatus
from runtime.operators.source import Source as Source
from runtime.operators.source import SourceError as SourceError
from runtime.operators.source import SourceSplit as SourceSplit
from runtime.operators.source import SplitEnumerator as SplitEnumerator
from runtime.operators.source import SplitReader as SplitReader
from runtime.operators.two_phase_commit import TwoPhaseCommitFunction as TwoPhaseCommitFunction
from runtime.operators.two_phase_commit import TwoPhaseCommitSink as TwoPhaseCommitSink

__all__ = [
    "Boundedness",
    "CommitTally",
    "Committer",
    "DeliveryGuarantee",
    "NoSplit",
    "ReadStatus",
    "ReaderContext",
    "RecordBatch",
    "Sink",
    "SinkError",
    "SinkSetupError",
    "SinkWriter",
    "SnapshotUnusableError",
    "Source",
    "SourceError",
    "SourceSplit",
    "SplitEnumerator",
    "SplitQueue",
    "SplitReader",
    "Sweeper",
    "TwoPhaseCommitFunction",
    "TwoPhaseCommitSink",
    "WriterContext",
]

if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)

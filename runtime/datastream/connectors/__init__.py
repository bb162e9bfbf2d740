"""Sources and sinks at PyFlink's module paths."""

from typing import TYPE_CHECKING

from runtime.common import exclusions as _exclusions
from runtime.datastream.connectors.base import DeliveryGuarantee as DeliveryGuarantee
from runtime.datastream.connectors.base import Sink as Sink
from runtime.datastream.connectors.base import Source as Source
from runtime.datastream.connectors.file_system import BucketAssigner as BucketAssigner
from runtime.datastream.connectors.file_system import DefaultRollingPolicy as DefaultRollingPolicy
from runtime.datastream.connectors.file_system import FileSink as FileSink
from runtime.datastream.connectors.file_system import FileSource as FileSource
from runtime.datastream.connectors.file_system import FileSourceBuilder as FileSourceBuilder
from runtime.datastream.connectors.file_system import OnCheckpointRollingPolicy as OnCheckpointRollingPolicy
from runtime.datastream.connectors.file_system import OutputFileConfig as OutputFileConfig
from runtime.datastream.connectors.file_system import RollingPolicy as RollingPolicy
from runtime.datastream.connectors.file_system import StreamFormat as StreamFormat
from runtime.datastream.connectors.number_seq import NumberSequenceSource as NumberSequenceSource

__all__ = [
    "BucketAssigner",
    "DefaultRollingPolicy",
    "DeliveryGuarantee",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "NumberSequenceSource",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
]

if not TYPE_CHECKING:
    # its clients are loaded by programs that use it
    __getattr__ = _exclusions.refusing_module(__name__, {"KafkaSource": "runtime.datastream.connectors.kafka"})

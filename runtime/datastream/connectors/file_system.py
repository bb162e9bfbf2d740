"""File source and file sink, at PyFlink's module path."""

from typing import TYPE_CHECKING

from runtime.common import exclusions as _exclusions
from runtime.connectors.files.file_sink import FileSink as FileSink
from runtime.connectors.files.file_source import FileSource as FileSource
from runtime.connectors.files.file_source import FileSourceBuilder as FileSourceBuilder
from runtime.connectors.files.file_source import StreamFormat as StreamFormat
from runtime.connectors.files.sink_config import BucketAssigner as BucketAssigner
from runtime.connectors.files.sink_config import OutputFileConfig as OutputFileConfig
from runtime.connectors.files.sink_config import RollingPolicy as RollingPolicy
from runtime.connectors.formats.file_format import FileFormat as BulkFormat

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]

#: policies differ by their values, not by their classes
DefaultRollingPolicy = RollingPolicy
OnCheckpointRollingPolicy = RollingPolicy

if not TYPE_CHECKING:
    __getattr__ = _exclusions.refusing_module(__name__)

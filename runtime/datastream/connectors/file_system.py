"""File source and file sink, at PyFlink's module path."""

from runtime.connectors.files.file_sink import FileSink as FileSink
from runtime.connectors.files.file_source import FileSource as FileSource
from runtime.connectors.files.file_source import FileSourceBuilder as FileSourceBuilder
from runtime.connectors.files.file_source import StreamFormat as StreamFormat
from runtime.connectors.files.sink_config import BucketAssigner as BucketAssigner
from runtime.connectors.files.sink_config import OutputFileConfig as OutputFileConfig
from runtime.connectors.files.sink_config import RollingPolicy as RollingPolicy

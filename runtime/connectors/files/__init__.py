"""File source and file sink.

`FileSource` cuts files into splits and reads them through a `FileFormat`; `FileSink` writes part files through a
`FileWriterFormat` and gives them their final names in a second step. Local file systems only: paths or `file:` URIs.
The formats are in `runtime.connectors.formats`.
"""

from runtime.connectors.files.file_sink import FileSink as FileSink
from runtime.connectors.files.file_sink import FileSinkBuilder as FileSinkBuilder
from runtime.connectors.files.file_source import FileSource as FileSource
from runtime.connectors.files.file_source import FileSourceBuilder as FileSourceBuilder
from runtime.connectors.files.file_source import StreamFormat as StreamFormat
from runtime.connectors.files.sink_config import BucketAssigner as BucketAssigner
from runtime.connectors.files.sink_config import OutputFileConfig as OutputFileConfig
from runtime.connectors.files.sink_config import RollingPolicy as RollingPolicy

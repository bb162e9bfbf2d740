"""Sources and sinks that come with Tidemark. Public names; the modules below are where they live.

Redis and PostgreSQL are imported from their own modules (`redis_streams`, `postgres_source`, `postgres_lookup`,
`postgres_sink`), so that a job that does not use them does not load their libraries.
"""

from runtime.connectors.blackhole import BlackHoleSink as BlackHoleSink
from runtime.connectors.collect_sink import CollectSink as CollectSink
from runtime.connectors.collect_sink import decode_collected as decode_collected
from runtime.connectors.collection import CollectionSource as CollectionSource
from runtime.connectors.datagen import DataGeneratorSource as DataGeneratorSource
from runtime.connectors.field_generators import FieldGenerator as FieldGenerator
from runtime.connectors.field_generators import nullable as nullable
from runtime.connectors.field_generators import random_bool as random_bool
from runtime.connectors.field_generators import random_choice as random_choice
from runtime.connectors.field_generators import random_float as random_float
from runtime.connectors.field_generators import random_int as random_int
from runtime.connectors.field_generators import random_string as random_string
from runtime.connectors.field_generators import random_zipf as random_zipf
from runtime.connectors.field_generators import sequence as sequence
from runtime.connectors.field_generators import template as template
from runtime.connectors.field_generators import times as times
from runtime.connectors.files import BucketAssigner as BucketAssigner
from runtime.connectors.files import FileSink as FileSink
from runtime.connectors.files import FileSource as FileSource
from runtime.connectors.files import OutputFileConfig as OutputFileConfig
from runtime.connectors.files import RollingPolicy as RollingPolicy
from runtime.connectors.files import StreamFormat as StreamFormat
from runtime.connectors.formats import DEAD_LETTER_TYPE as DEAD_LETTER_TYPE
from runtime.connectors.formats import DEAD_LETTERS as DEAD_LETTERS
from runtime.connectors.formats import AvroConfluentSchema as AvroConfluentSchema
from runtime.connectors.formats import AvroFormat as AvroFormat
from runtime.connectors.formats import AvroMessageSchema as AvroMessageSchema
from runtime.connectors.formats import AvroWriterFormat as AvroWriterFormat
from runtime.connectors.formats import BadRecords as BadRecords
from runtime.connectors.formats import CsvFormat as CsvFormat
from runtime.connectors.formats import CsvWriterFormat as CsvWriterFormat
from runtime.connectors.formats import JsonConfluentFormat as JsonConfluentFormat
from runtime.connectors.formats import JsonConfluentWriterFormat as JsonConfluentWriterFormat
from runtime.connectors.formats import NdjsonFormat as NdjsonFormat
from runtime.connectors.formats import NdjsonWriterFormat as NdjsonWriterFormat
from runtime.connectors.formats import ParquetFormat as ParquetFormat
from runtime.connectors.formats import ParquetWriterFormat as ParquetWriterFormat
from runtime.connectors.formats import RawLineFormat as RawLineFormat
from runtime.connectors.formats import RawMessageSchema as RawMessageSchema
from runtime.connectors.formats import RawWriterFormat as RawWriterFormat
from runtime.connectors.formats import SchemaRegistry as SchemaRegistry
from runtime.connectors.formats import TextLineFormat as TextLineFormat
from runtime.connectors.formats import TextWriterFormat as TextWriterFormat
from runtime.connectors.nexmark import NexmarkConfig as NexmarkConfig
from runtime.connectors.nexmark import NexmarkKind as NexmarkKind
from runtime.connectors.nexmark import NexmarkSource as NexmarkSource
from runtime.connectors.number_seq import NumberSequenceSource as NumberSequenceSource
from runtime.connectors.print_sink import PrintSink as PrintSink
from runtime.connectors.replay import ReplaySource as ReplaySource
from runtime.connectors.socket_source import SocketSource as SocketSource

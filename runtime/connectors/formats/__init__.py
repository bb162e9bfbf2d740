"""Parts that the formats of files and of messages share: bad records, messages as batches, raw bytes, Avro."""

from runtime.connectors.formats.avro_messages import AvroMessageSchema as AvroMessageSchema
from runtime.connectors.formats.bad_records import DEAD_LETTER_TYPE as DEAD_LETTER_TYPE
from runtime.connectors.formats.bad_records import DEAD_LETTERS as DEAD_LETTERS
from runtime.connectors.formats.bad_records import BadRecords as BadRecords
from runtime.connectors.formats.raw import RawMessageSchema as RawMessageSchema

"""JSON at PyFlink's module path. The code is in `runtime.connectors.formats.json`."""

from runtime.connectors.formats.json.messages import JsonRowDeserializationSchema as JsonRowDeserializationSchema
from runtime.connectors.formats.json.messages import JsonRowSerializationSchema as JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

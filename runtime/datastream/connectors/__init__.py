"""Sources and sinks at PyFlink's module paths."""

from runtime.operators.sink import Sink as Sink
from runtime.operators.source import Source as Source

"""NumberSequenceSource at PyFlink's module path."""

from runtime.connectors.number_seq import NumberSequenceSource as NumberSequenceSource

__all__ = ["NumberSequenceSource"]

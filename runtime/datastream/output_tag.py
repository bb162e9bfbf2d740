"""OutputTag at PyFlink's module path."""

from runtime.operators.output_tag import OutputTag as OutputTag

__all__ = ["OutputTag"]

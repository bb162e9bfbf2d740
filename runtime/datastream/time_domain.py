"""TimeDomain at PyFlink's module path."""

from runtime.operators.functions import TimeDomain as TimeDomain

__all__ = ["TimeDomain"]

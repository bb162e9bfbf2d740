"""TimerService at PyFlink's module path."""

from runtime.operators.functions import TimerService as TimerService

__all__ = ["TimerService"]

"""Key selectors that select the keys of a whole batch at once; partitioners and operators try them first.

Interface only: the layers below the operators have no functions. Source: none in Flink, whose selectors see one record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class BatchKeySelector(ABC):
    """A key selector that can do better than one record after the other."""

    @abstractmethod
    def get_keys(self, values: list[Any]) -> list[Any] | None:
        """Return the key of each record; None if they must be selected one by one, which also finds the failing record.

        Never raises.
        """

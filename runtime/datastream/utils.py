"""ResultTypeQueryable at PyFlink's module path."""

from __future__ import annotations

from abc import ABC, abstractmethod

from runtime.common.typeinfo import TypeInformation

__all__ = ["ResultTypeQueryable"]


class ResultTypeQueryable(ABC):
    """A source or format that tells the type of its records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation: ...

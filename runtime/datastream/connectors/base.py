"""Source, Sink and DeliveryGuarantee, at PyFlink's module path."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from runtime.common.exclusions import refusing_module
from runtime.operators.sink import Sink as Sink
from runtime.operators.source import Source as Source


class DeliveryGuarantee(enum.Enum):
    """How often a sink may write a record when a job is restored."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)

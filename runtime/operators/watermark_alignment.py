"""Watermark alignment: sources of a group wait for those of them that lag.

Each subtask reports its watermark to its source's coordinator once per update interval, and is answered with the
highest watermark that it may have; splits beyond it are not read. Coordinators of a job tell each other how far their
sources have got, so a group spans sources. What has not reported yet holds nobody up; what is idle or has ended reports
MAX_WATERMARK. Pure. Source: Flink, SourceCoordinator.announceCombinedWatermark, WatermarkAligner.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.common.watermark_strategy import WatermarkAlignment
from runtime.core.elements import MAX_WATERMARK
from runtime.core.ids import OperatorId


@dataclass(frozen=True, slots=True)
class ReportWatermark:
    """Reader → coordinator: the subtask's watermark; answered with AlignWatermark."""

    watermark: int


@dataclass(frozen=True, slots=True)
class AlignWatermark:
    """Coordinator → reader: splits beyond `max_allowed` wait."""

    max_allowed: int
    drift_ms: int
    """Time by which the reader was ahead of the group when it reported."""


@dataclass(frozen=True, slots=True)
class SourceWatermark:
    """Coordinator → coordinators of the job's other sources: the least watermark of a source's subtasks."""

    group: str
    source: OperatorId
    watermark: int


class AlignmentGroup:
    """The knowledge that one source's coordinator has of the group.

    Args:
        alignment: of the source's watermark strategy.
        source: its operator id.
    """

    def __init__(self, alignment: WatermarkAlignment, source: OperatorId) -> None:
        self._alignment = alignment
        self._source = source
        self._subtasks: dict[int, int] = {}
        self._peers: dict[OperatorId, int] = {}
        self._told: int | None = None

    @property
    def watermark(self) -> int:
        """Return the lowest reported watermark; MAX_WATERMARK if there is none, or all are idle or have ended."""
        return min([*self._subtasks.values(), *self._peers.values()], default=MAX_WATERMARK)

    def report(self, subtask: int, watermark: int) -> AlignWatermark:
        """Take a subtask's report; returns the answer."""
        self._subtasks[subtask] = watermark
        least = self.watermark
        drift_ms = 0 if watermark == MAX_WATERMARK else watermark - least
        return AlignWatermark(min(MAX_WATERMARK, least + self._alignment.max_drift_ms), drift_ms)

    def hear(self, message: SourceWatermark) -> None:
        """Take another coordinator's report of its source; one of another group means nothing."""
        if message.group == self._alignment.group:
            self._peers[message.source] = message.watermark

    def news(self) -> SourceWatermark | None:
        """Return what to tell the other coordinators; None if they know."""
        least = min(self._subtasks.values(), default=None)
        if least is None or least == self._told:
            return None
        self._told = least
        return SourceWatermark(self._alignment.group, self._source, least)

    def forget_news(self) -> None:
        """Tell the other coordinators again: what they were told may not have reached them."""
        self._told = None

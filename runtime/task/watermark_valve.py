"""WatermarkValve: merges the watermarks and the idleness of an input's channels.

Pure; used by the task's thread. The merged watermark is the minimum over the channels that are active and not ended,
and never goes back. Source: Flink, StatusWatermarkValve.
"""

from __future__ import annotations

from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, WatermarkStatus


class WatermarkValve:
    """State of one input's channels.

    Args:
        channels: number of channels, ≥ 1.
    """

    __slots__ = ("_active", "_aligned", "_ended", "_watermarks", "status", "watermark")

    def __init__(self, channels: int) -> None:
        self._watermarks = [MIN_WATERMARK] * channels
        self._active = [True] * channels
        #: a channel that was idle counts again once its watermark has caught up with the merged one
        self._aligned = [True] * channels
        self._ended = [False] * channels
        self.watermark = MIN_WATERMARK
        self.status = WatermarkStatus.ACTIVE

    def on_watermark(self, channel: int, watermark: int) -> int | None:
        """Take a channel's `watermark`; returns the merged one if it rose."""
        if not self._active[channel] or watermark <= self._watermarks[channel]:
            return None
        self._watermarks[channel] = watermark
        if not self._aligned[channel]:
            if watermark < self.watermark:
                return None
            self._aligned[channel] = True
        return self._raise_to_minimum()

    def on_status(self, channel: int, status: WatermarkStatus) -> tuple[int | None, WatermarkStatus | None]:
        """Take a channel's idleness; returns (merged watermark if it rose, merged status if it changed)."""
        active = status is WatermarkStatus.ACTIVE
        if self._active[channel] == active:
            return None, None
        self._active[channel] = active
        if active:
            self._aligned[channel] = self._watermarks[channel] >= self.watermark
            if self.status is WatermarkStatus.IDLE:
                self.status = WatermarkStatus.ACTIVE
                return None, WatermarkStatus.ACTIVE
            return None, None
        self._aligned[channel] = False
        return self._after_one_fell_away()

    def on_end(self, channel: int) -> tuple[int | None, WatermarkStatus | None]:
        """Take a channel's end: it no longer holds the others back."""
        if self._ended[channel]:
            return None, None
        self._ended[channel] = True
        self._aligned[channel] = False
        if all(self._ended):
            # the watermarks that came before the ends were all there is to say
            return None, None
        return self._after_one_fell_away()

    def _after_one_fell_away(self) -> tuple[int | None, WatermarkStatus | None]:
        if any(active and not ended for active, ended in zip(self._active, self._ended, strict=True)):
            return self._raise_to_minimum(), None
        # everyone who could still speak is idle: event time may go as far as the furthest of them has said
        candidates = [w for w, ended in zip(self._watermarks, self._ended, strict=True) if not ended]
        risen = self._raise_to(max(candidates))
        if self.status is WatermarkStatus.IDLE:
            return risen, None
        self.status = WatermarkStatus.IDLE
        return risen, WatermarkStatus.IDLE

    def _raise_to_minimum(self) -> int | None:
        aligned = [
            w for w, ok, ended in zip(self._watermarks, self._aligned, self._ended, strict=True) if ok and not ended
        ]
        if not aligned:
            return None
        return self._raise_to(min(aligned))

    def _raise_to(self, watermark: int) -> int | None:
        if watermark <= self.watermark:
            return None
        self.watermark = watermark
        return watermark

    @property
    def is_at_end(self) -> bool:
        """Return whether event time has reached its end."""
        return self.watermark == MAX_WATERMARK

"""HolderWatch: whether the process that is said to run an application lives. Pure; times are its caller's own,
monotonic.

A process that runs an application gives a sign of life every `BEAT_MS`. Another one takes over when it has seen none
for `TAKE_OVER_MS`, measured by itself from what it saw; no clock is compared with another. To be wrong about it is
safe, because the log fences whoever was replaced, but costs a restart.
"""

from __future__ import annotations

import enum
from typing import Final

#: interval of signs of life; shorter: more requests to an object store, which are paid for
BEAT_MS: Final = 2_000.0
#: time without a sign of life after which its holder counts as dead. Shorter: a holder that is swapped out, or whose
#: JVM is just starting, loses its application; longer: a machine that is lost is replaced later
TAKE_OVER_MS: Final = 15_000.0
#: the same for one that has given no sign of life yet: it starts its JVM first, which may take longer than that on a
#: busy machine. Several processes that wait would replace each other for ever
START_MS: Final = 60_000.0
#: interval of looks
LOOK_MS: Final = 500.0
#: a look that takes longer, or comes later after the one before, proves nothing: the holder may have been as slow
SLOW_MS: Final = 3_000.0
#: time for which the log may be gone before its holder gives up: a share that is mounted again shows it again
GONE_MS: Final = 30_000.0


class Verdict(enum.Enum):
    """Action to take after a look at the log."""

    TAKE = enum.auto()
    WAIT = enum.auto()
    REFUSE = enum.auto()
    """Its holder lives."""


class HolderWatch:
    """Looks at the log go in, verdicts come out."""

    def __init__(self) -> None:
        #: token of the holder and its newest sign of life, and since when they are known
        self._seen: tuple[str, str] | None = None
        self._since_ms = 0.0
        self._looked_ms = 0.0

    def looked(
        self, token: str, beat: str, has_ended: bool, begun_ms: float, ended_ms: float, has_beaten: bool = True
    ) -> Verdict:
        """Handle a look.

        Args:
            token: of the holder.
            beat: its newest sign of life.
            has_ended: whether the holder's process is known to have ended.
            begun_ms: when the look began.
            ended_ms: when it ended.
            has_beaten: whether the newest sign of life is this holder's.
        """
        if has_ended:
            return Verdict.TAKE
        if self._seen is not None and self._seen[0] == token and self._seen[1] != beat:
            return Verdict.REFUSE
        # one that comes late may follow a sleep of the machine, from which the holder wakes up too
        is_prompt = ended_ms - begun_ms <= SLOW_MS and begun_ms - self._looked_ms <= SLOW_MS
        self._looked_ms = ended_ms
        if self._seen != (token, beat) or not is_prompt:
            self._seen, self._since_ms = (token, beat), ended_ms
            return Verdict.WAIT
        patience_ms = TAKE_OVER_MS if has_beaten else START_MS
        return Verdict.TAKE if begun_ms - self._since_ms >= patience_ms else Verdict.WAIT

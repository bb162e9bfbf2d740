"""LocationChecks: checks for the leader's loop which locations are allowed, though their storage may never answer.

To check a location is to follow the links in it, and that waits for the storage: a share that hangs would hold up the
loop, and with it every job. So threads look; the loop waits for them briefly, and seldom, and asks again at its next
poll.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from backend.cluster.background import BackgroundWork
from runtime.core.clock import Clock

#: checks a location and returns it as a resolved URI, as `AllowedRoots.check` does
CheckLocation = Callable[[str], str]

PROMPT_S: Final = 1.0
"""Wait for an answer. Shorter: on a busy machine, what could be done at once waits for the next poll; longer: a storage
that hangs is noticed in all that the leader does."""
HURRIED_S: Final = 0.01
"""Wait for an answer where the loop has waited in vain before: what another storage says at once is still heard, and a
thousand locations on one that hangs cost the loop ten seconds, once."""
PAUSE_MS: Final = 5_000.0
"""Time after a wait in vain for which the loop is in a hurry."""
FRESH_MS: Final = 2_000.0
"""An answer is used again for so long: many jobs have the same directories, and one needs answers for several."""
KEPT_MS: Final = 60_000.0
"""An answer is used for so long if there is no newer one. Longer: links that have changed are not noticed; shorter:
whoever needs answers of several slow storages never has them all at once."""


class StorageSilentError(Exception):
    """A storage has not answered yet; whoever asked repeats it.

    Attributes:
        location: where the storage is.
    """

    def __init__(self, location: str) -> None:
        super().__init__(f"the storage of {location} has not answered yet")
        self.location = location


@dataclass(slots=True)
class _Asked:
    answer: Future[str]
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    answer: Future[str]
    since_ms: float
    """When it was noticed, monotonic."""

    def is_younger(self, age_ms: float, now_ms: float) -> bool:
        return now_ms - self.since_ms <= age_ms


class LocationChecks:
    """Asked by the leader's loop only.

    Args:
        check: checks a location, for as long as that takes; called by any thread.
        clock: for the ages of answers.
        prompt_s: how long an answer is waited for.
    """

    def __init__(self, check: CheckLocation, clock: Clock, prompt_s: float = PROMPT_S) -> None:
        self._check = check
        self._clock = clock
        self._prompt_s = prompt_s
        self._work = BackgroundWork("location-checks")
        self._asked: dict[str, _Asked] = {}
        self._known: dict[str, _Known] = {}
        #: monotonic ms
        self._hurries_until_ms = 0.0

    def check(self, location: str) -> str:
        """Return a location as a resolved URI.

        Raises:
            StorageSilentError: its storage has not answered yet.
            CheckpointStorageError: it is not allowed, or there can be no checkpoints.
        """
        known = self._known.get(location)
        if known is not None and known.is_younger(FRESH_MS, self._clock.monotonic_ms()):
            return known.answer.result()
        asked = self._asked.get(location)
        if asked is None:
            try:
                asked = self._asked[location] = _Asked(self._work.submit(lambda: self._check(location), location))
            except RuntimeError as error:
                # there is no thread for it now: no fault of whoever has named the location
                raise StorageSilentError(location) from error
        self._wait(asked)
        now_ms = self._clock.monotonic_ms()
        if asked.answer.done():
            del self._asked[location]
            self._known = {name: of for name, of in self._known.items() if of.is_younger(KEPT_MS, now_ms)}
            known = self._known[location] = _Known(asked.answer, now_ms)
        if known is None or not known.is_younger(KEPT_MS, now_ms):
            raise StorageSilentError(location)
        return known.answer.result()

    def close(self) -> None:
        """Look no more."""
        self._work.close()

    def _wait(self, asked: _Asked) -> None:
        if asked.is_late:
            return
        is_in_a_hurry = self._clock.monotonic_ms() < self._hurries_until_ms
        asked.is_late = not self._work.wait(asked.answer, HURRIED_S if is_in_a_hurry else self._prompt_s)
        if asked.is_late and not is_in_a_hurry:
            self._hurries_until_ms = self._clock.monotonic_ms() + PAUSE_MS

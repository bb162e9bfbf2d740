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
from backend.cluster.storage_names import storage_of
from runtime.core.clock import Clock

#: checks a location and returns it as a resolved URI, as `AllowedRoots.check` does
CheckLocation = Callable[[str], str]

PROMPT_S: Final = 1.0
"""Wait for answers in any `PAUSE_MS`. Shorter: on a busy machine, what could be done at once waits for the next poll;
longer: a storage that hangs, or is slow for many jobs, is noticed in all that the leader does."""
HURRIED_S: Final = 0.01
"""Wait for an answer where the loop has waited enough: what another storage says at once is still heard, and a thousand
locations on one that hangs cost the loop ten seconds, once."""
PAUSE_MS: Final = 5_000.0
"""Time for which a wait counts."""
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
    #: monotonic; None: there is no answer, or it has come just now. Written by the thread that looked
    answered_ms: float | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    answer: Future[str]
    since_ms: float
    """When the storage gave it, monotonic: it may have been noticed much later."""

    def is_younger(self, age_ms: float, now_ms: float) -> bool:
        return now_ms - self.since_ms <= age_ms


class LocationChecks:
    """Asked by the leader's loop only.

    Args:
        check: checks a location, for as long as that takes; called by any thread.
        clock: for the ages of answers.
        prompt_s: how long answers are waited for.
    """

    def __init__(self, check: CheckLocation, clock: Clock, prompt_s: float = PROMPT_S) -> None:
        self._check = check
        self._clock = clock
        self._prompt_s = prompt_s
        self._work = BackgroundWork("location-checks")
        self._asked: dict[str, _Asked] = {}
        self._known: dict[str, _Known] = {}
        #: since when waits are counted, and their sum; monotonic ms, s
        self._counted_ms = clock.monotonic_ms()
        self._waited_s = 0.0

    def check(self, location: str) -> str:
        """Return a location as a resolved URI.

        Raises:
            StorageSilentError: its storage has not answered yet.
            CheckpointStorageError: it is not allowed, or there can be no checkpoints.
        """
        known, begun_ms = self._heard(location), self._clock.monotonic_ms()
        if known is not None and known.is_younger(FRESH_MS, begun_ms):
            return known.answer.result()
        self._wait(self._asked.get(location) or self._ask(location), begun_ms)
        known = self._heard(location)
        if known is None or not known.is_younger(KEPT_MS, self._clock.monotonic_ms()):
            raise StorageSilentError(location)
        return known.answer.result()

    def close(self) -> None:
        """Look no more."""
        self._work.close()

    def _ask(self, location: str) -> _Asked:
        now_ms = self._clock.monotonic_ms()
        for name, of in list(self._asked.items()):
            if of.answered_ms is not None and now_ms - of.answered_ms > KEPT_MS:
                # nobody may ever ask again for what came late
                del self._asked[name]
        try:
            answer = self._work.submit(lambda: self._check(location), location, storage_of(location))
        except RuntimeError as error:
            # there is no thread for it now: no fault of whoever has named the location
            raise StorageSilentError(location) from error
        asked = self._asked[location] = _Asked(answer)

        def note(_: Future[str]) -> None:
            asked.answered_ms = self._clock.monotonic_ms()

        answer.add_done_callback(note)
        return asked

    def _heard(self, location: str) -> _Known | None:
        """Return the newest answer, whatever its age; None: there is none."""
        asked = self._asked.get(location)
        if asked is not None and asked.answer.done():
            now_ms = self._clock.monotonic_ms()
            del self._asked[location]
            self._known = {name: of for name, of in self._known.items() if of.is_younger(KEPT_MS, now_ms)}
            answered_ms = asked.answered_ms
            self._known[location] = _Known(asked.answer, now_ms if answered_ms is None else answered_ms)
        return self._known.get(location)

    def _wait(self, asked: _Asked, begun_ms: float) -> None:
        if asked.is_late:
            return
        if begun_ms - self._counted_ms >= PAUSE_MS:
            self._counted_ms, self._waited_s = begun_ms, 0.0
        timeout_s = max(HURRIED_S, self._prompt_s - self._waited_s)
        asked.is_late = not self._work.wait(asked.answer, timeout_s)
        waited_s = (self._clock.monotonic_ms() - begun_ms) / 1000.0
        self._waited_s += timeout_s if asked.is_late else waited_s

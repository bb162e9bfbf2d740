from __future__ import annotations

from runtime.core.ids import Attempt
from runtime.jobmaster.actions import ReleaseAttempt
from runtime.jobmaster.journal import STORY_LENGTH, Journal


def test_every_event_has_actions_of_its_own() -> None:
    journal = Journal()
    first = journal.begin(10)
    journal.act(ReleaseAttempt(Attempt(0)))
    second = journal.begin(20)
    journal.act(ReleaseAttempt(Attempt(1)))
    assert (first, second) == ([ReleaseAttempt(Attempt(0))], [ReleaseAttempt(Attempt(1))])


def test_time_never_goes_back_and_people_see_their_own() -> None:
    journal = Journal()
    journal.begin(1_000, wall_ms=7)
    journal.begin(999)
    assert (journal.now_ms, journal.wall_ms) == (1_000, 999)


def test_the_story_keeps_the_newest_entries() -> None:
    journal = Journal()
    for i in range(STORY_LENGTH + 1):
        journal.begin(i)
        journal.tell(f"event {i}")
    story = journal.story()
    assert (len(story), story[0], story[-1]) == (STORY_LENGTH, "1: event 1", f"{STORY_LENGTH}: event {STORY_LENGTH}")

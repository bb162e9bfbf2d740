"""The part of a leader that moves replacements of jobs on, and JobMasters that do what it asks for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import OperationalError, connection

from backend.cluster import services
from backend.cluster.checkpoint_home import check_location
from backend.cluster.containment import Containment
from backend.cluster.leadership import Leadership
from backend.cluster.led_replacements import LedReplacements
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import Checkpoint, Job, Operation, Replacement
from runtime.testing.clock import ManualClock
from tests.cluster.failing_database import FailingDatabase, Loss
from tests.cluster.leading import take_leadership

ENDED = ("RUNNING", "ROLLED_BACK", "FAILED")


class Replacing:
    """A leader of the replacements of one app.

    Args:
        led: what moves them on.
        savepoint: where stops leave theirs.
    """

    def __init__(self, led: type[LedReplacements[Any]], savepoint: str) -> None:
        self._led_type = led
        self._savepoint = savepoint
        self.clock = ManualClock(services.now_ms())
        #: says whether a directory is allowed
        self.check: CheckLocation = check_location
        self.become()

    def become(self) -> None:
        """Take the leadership, as a successor."""
        self.leadership: Leadership = take_leadership("leader")
        check: CheckLocation = lambda location: self.check(location)  # noqa: E731 (it changes)
        self.led = self._led_type(self.leadership, self.clock, Containment(), check)

    def poll(self) -> None:
        self.led.poll()

    def poll_over(self, database: FailingDatabase) -> None:
        """Poll once while a database may be lost."""
        with suppress(OperationalError), database.in_use():
            self.poll()

    def answer(self, new_state: str = "RUNNING", has_checkpoint: bool = True) -> None:
        """Do what JobMasters do: stop what is asked to stop, end what is cancelled, run what is new."""
        now = services.now_ms()
        for operation in Operation.objects.exclude(state="COMPLETED"):
            is_stop = operation.kind == Operation.Kind.STOP
            state = "FINISHED" if is_stop else "CANCELED"
            result = {"location": self._savepoint, "checkpoint_id": 7} if is_stop else {"state": state}
            Job.objects.filter(id=operation.job_id).update(state=state)
            Operation.objects.filter(trigger_id=operation.trigger_id).update(state="COMPLETED", result=result)
        for job in Job.objects.filter(state="INITIALIZING"):
            job.state, job.state_times = new_state, {new_state: now}
            job.save()
            if has_checkpoint:
                Checkpoint.objects.create(
                    job=job,
                    checkpoint_id=8,
                    location="file:///x",
                    is_owned=True,
                    is_savepoint=False,
                    leader_epoch=1,
                    triggered_at=1,
                    completed_at=2,
                    size=0,
                )

    def go_on(self, made: Replacement, polls: int = 12, **answers: Any) -> list[str]:
        """Poll until nothing is left to be done; return the states on the way."""
        states = [made.state]
        for _ in range(polls):
            self.poll()
            made.refresh_from_db()
            if made.state != states[-1]:
                states.append(made.state)
            self.answer(**answers)
        return states

    def settle_although_lost(self, made: Replacement, nth: int, loss: Loss, answers: dict[str, Any]) -> bool:
        """Poll until a replacement has ended, while one leader loses its `nth` call and all later ones, and another
        goes on; return whether a call was lost.

        Args:
            made: the replacement.
            nth: the call that is lost first.
            loss: how.
            answers: what new jobs do, until the old one has come back.
        """
        self.become()
        database = FailingDatabase(nth, loss, is_away=True)
        has_failed = False
        for _ in range(14):
            if made.state in ENDED:
                break
            self.poll_over(database)
            if database.failed:
                has_failed = True
                connection.close()
                self.become()
                database = FailingDatabase(0, loss)
            has_come_back = Job.objects.filter(id=made.rollback_job_id).exists()
            self.answer(**({} if has_come_back else answers))
            made.refresh_from_db()
        return has_failed


def silent(location: str) -> str:
    """A storage that does not answer."""
    raise StorageSilentError(location)

from __future__ import annotations

from runtime.task.mailbox import TaskMailbox
from runtime.testing.clock import ManualClock


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wakes = 0
        self.ran: list[str] = []
        self.mailbox = TaskMailbox(self.clock, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def mail(self, name: str) -> None:
        self.ran.append(name)


def test_mail_wakes_the_loop_and_runs_in_order() -> None:
    rig = Rig()
    rig.mailbox.post(lambda: rig.mail("a"))
    rig.mailbox.post(lambda: rig.mail("b"))
    assert (rig.wakes, len(rig.mailbox)) == (2, 2)
    rig.mailbox.run()
    assert (rig.ran, rig.mailbox.num_run, bool(rig.mailbox)) == (["a", "b"], 2, False)


def test_what_mail_brings_about_waits_for_the_next_step() -> None:
    rig = Rig()
    rig.mailbox.post(lambda: rig.mailbox.post(lambda: rig.mail("later")))
    rig.mailbox.run()
    assert rig.ran == []
    rig.mailbox.run()
    assert rig.ran == ["later"]


def test_what_is_kept_for_later_wakes_nobody() -> None:
    rig = Rig()
    rig.mailbox.keep(lambda: rig.mail("timer"))
    assert rig.wakes == 0
    rig.mailbox.clear()
    rig.mailbox.run()
    assert rig.ran == []


def test_the_latency_is_that_of_mail_that_comes_behind_work() -> None:
    rig = Rig()
    rig.mailbox.metrics(has_work=True)
    rig.clock.advance(30)
    rig.mailbox.on_step()
    rig.clock.advance(1_000)
    rig.mailbox.on_step()
    metrics = rig.mailbox.metrics(has_work=False)
    assert (metrics["mailboxLatencyMs_max"], metrics["mailboxLatencyMs_min"]) == (30, 0)
    assert metrics["mailboxQueueSize"] == 0

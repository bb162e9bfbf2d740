"""TaskMailbox: actions for a task that its loop runs between two slices, and how long they wait.

Source: Flink, MailboxProcessor, MailboxMetricsController.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from runtime.core.clock import Clock
from runtime.metrics.histogram import Histogram

Mail = Callable[[], None]


class TaskMailbox:
    """The mail of one task. Loop's thread only, but for `post`.

    Args:
        clock: measures how long mail waits.
        wake: has the loop look at its tasks; any thread.
    """

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        #: actions run so far, timers among them
        self.num_run = 0
        self._clock = clock
        self._wake = wake
        #: anyone appends, the loop takes
        self._mails: deque[Mail] = deque()
        self._latency = Histogram()
        #: when a sample of the latency was begun; None = there is none
        self._probed_ms: float | None = None

    def __len__(self) -> int:
        return len(self._mails)

    def post(self, mail: Mail) -> None:
        """Have the loop run an action soon; any thread."""
        self._mails.append(mail)
        self._wake()

    def keep(self, mail: Mail) -> None:
        """Run an action in a later step, when the task does one."""
        self._mails.append(mail)

    def run(self) -> None:
        """Run what is there now; what it brings about comes in the next step."""
        for _ in range(len(self._mails)):
            self.num_run += 1
            self._mails.popleft()()

    def clear(self) -> None:
        """Drop all mail."""
        self._mails.clear()

    def on_step(self) -> None:
        """End the sample of the latency: mail is taken now."""
        if self._probed_ms is not None:
            self._latency.update(self._clock.monotonic_ms() - self._probed_ms)
            self._probed_ms = None

    def metrics(self, has_work: bool) -> dict[str, object]:
        """Return the mailbox's metrics; its latency is sampled: how long a mail that comes now would wait.

        Args:
            has_work: whether the task has something to do, and mail would wait for it; else mail wakes the loop.
        """
        if has_work:
            self._probed_ms = self._clock.monotonic_ms()
        else:
            self._latency.update(0)
        latency = {f"mailboxLatencyMs_{name}": value for name, value in self._latency.report().items()}
        return {"mailboxQueueSize": len(self._mails), **latency}

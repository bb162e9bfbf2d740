"""LocalControlLink: the control stream of a slot that lives in the JobMaster's process. One thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.events import JobMasterEvent, SlotMessageReceived
from runtime.task.messages import Heartbeat, HeartbeatRequest, JobMasterMessage, SlotMessage
from runtime.task.stalls import LoopWatch


class LocalControlLink:
    """A slot's control stream within the process."""

    def __init__(self, slot: SlotId, attempt: Attempt, post: Callable[[JobMasterEvent], None]) -> None:
        self._slot = slot
        self._post = post
        self._inbox: deque[JobMasterMessage] = deque()
        self._heartbeat = Heartbeat(slot, attempt, 0, {})

    def deliver(self, message: JobMasterMessage) -> None:
        self._inbox.append(message)

    def poll(self) -> JobMasterMessage | None:
        if not self._inbox:
            return None
        message = self._inbox.popleft()
        if isinstance(message, HeartbeatRequest):
            heartbeat = self._heartbeat
            self.send(Heartbeat(heartbeat.slot, heartbeat.attempt, message.sequence, heartbeat.metrics))
        return message

    def send(self, message: SlotMessage) -> None:
        self._post(SlotMessageReceived(message, self._slot))

    def publish(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat

    def set_listener(self, on_message: Callable[[], None]) -> None:
        """Do nothing: the cluster's loop steps every slot."""

    def set_watch(self, watch: LoopWatch, redact: Callable[[str], str]) -> None:
        """Do nothing: one thread runs everything, and stands still with the loop."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

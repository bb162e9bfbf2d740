"""ControlLink: a slot's end of the control stream to its JobMaster, whatever carries it.

`FlightControlLink` is the one of real clusters, `ControlSession` the one that outlives a JobMaster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runtime.task.messages import Heartbeat, JobMasterMessage, SlotMessage
from runtime.task.stalls import LoopWatch


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """From here on the link leads to a new JobMaster, which knows nothing of the slot."""

    epoch: int


class ControlLink(Protocol):
    """A slot's end of the control stream."""

    def poll(self) -> JobMasterMessage | LeaderChanged | None:
        """Return the next message, or None.

        Raises:
            ControlLostError: the JobMaster is gone or has not been heard of for the lease's time.
        """

    def send(self, message: SlotMessage) -> None:
        """Queue a message; never blocks, keeps the order."""

    def publish(self, heartbeat: Heartbeat) -> None:
        """Set the answer to heartbeat requests from now on; links without a thread of their own send it at once."""

    def set_listener(self, on_message: Callable[[], None]) -> None:
        """Call `on_message` (from any thread) when `poll` has something."""

    def set_watch(self, watch: LoopWatch, redact: Callable[[str], str]) -> None:
        """Ask `watch` (from any thread) what the loop does, when it is stuck or is to be sampled; `redact` takes out of
        names of threads what nobody may see."""

    def close(self) -> None:
        """Send what is queued (within 2 s), then end the stream; idempotent."""


class DroppableLink(ControlLink, Protocol):
    """A link that can be replaced by another one."""

    def drop(self) -> None:
        """End the stream at once; what is queued in either direction is lost."""


class ControlLostError(Exception):
    """The JobMaster cannot be reached: the slot must stop, unless another JobMaster may come.

    Args:
        cause: what happened.
        is_final: whether no other JobMaster can want the slot: its own one has ended it.
    """

    def __init__(self, cause: str, is_final: bool = False) -> None:
        self.is_final = is_final
        super().__init__(cause)

"""ControlSession: a slot's control link across JobMasters. The slot goes on when its JobMaster dies or stands still.

Without a JobMaster the slot is an *orphan*: it processes records, and takes part in nothing else. A JobMaster that only
stands still leaves no orphans: its link waits as long as an orphan does. A new leader *adopts* the slot: it proves that
it belongs to the cluster and leads with a higher epoch, and the slot opens a control stream to it. From that moment the
old stream is dropped with everything in it, in both directions, and `poll` says LeaderChanged. An orphan that nobody
adopts in time ends itself: another process may have taken its place.

What is sent while there is no JobMaster is dropped: after LeaderChanged the slot reports everything that counts.
`offer` is called by any thread, the rest by the loop's, but for `send`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId
from runtime.task.control_link import ControlLostError, DroppableLink, LeaderChanged
from runtime.task.messages import PROTOCOL_VERSION, Heartbeat, JobMasterMessage, SlotMessage
from runtime.task.stalls import LoopWatch

logger = logging.getLogger(__name__)

ADOPT_ACTION = "adopt"
"""Name of the action on a slot's data server that takes an AdoptionOffer."""


class AdoptionRefusedError(Exception):
    """The slot does not come over to the JobMaster that asks."""


@dataclass(frozen=True, slots=True)
class AdoptionOffer:
    """Asks a slot to come over to a new JobMaster."""

    slot: SlotId
    attempt: Attempt
    epoch: int
    """Of the new leader."""
    address: str
    """Of its control server."""
    protocol: int = PROTOCOL_VERSION

    def sealed(self, token: str) -> bytes:
        """Return the offer for the wire, with the proof that its sender knows the token of the slot's attempt."""
        body = self._body()
        return json.dumps(body | {"mac": _mac(body, token)}).encode()

    @classmethod
    def opened(cls, data: bytes, token: str) -> AdoptionOffer:
        """Read and check an offer.

        Raises:
            AdoptionRefusedError: it is malformed, or its sender does not know the token.
        """
        try:
            fields = json.loads(data)
            mac = str(fields.pop("mac"))
            offer = cls(
                SlotId(int(fields["slot"])),
                Attempt(int(fields["attempt"])),
                int(fields["epoch"]),
                str(fields["address"]),
                int(fields["protocol"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AdoptionRefusedError("malformed offer") from error
        if not hmac.compare_digest(_mac(offer._body(), token), mac):
            raise AdoptionRefusedError("its sender does not know the token")
        return offer

    def _body(self) -> dict[str, object]:
        return {
            "slot": self.slot,
            "attempt": self.attempt,
            "epoch": self.epoch,
            "address": self.address,
            "protocol": self.protocol,
        }


def _mac(body: dict[str, object], token: str) -> str:
    text = json.dumps(body, sort_keys=True).encode()
    return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """Terms of a slot's deployment that decide what happens when its JobMaster changes."""

    slot: SlotId
    attempt: Attempt
    epoch: int
    """Epoch of the leader that deployed it."""
    token: str
    """Of its attempt."""
    orphan_timeout_ms: float
    """How long it goes on without a JobMaster; 0: not at all."""


class ControlSession:
    """Implements ControlLink.

    Args:
        link: to the JobMaster that has deployed the slot.
        connect: opens a link to the control server at an address; raises ControlLostError.
        terms: of the slot.
        clock: for the timeout.
    """

    def __init__(
        self, link: DroppableLink, connect: Callable[[str], DroppableLink], terms: SessionTerms, clock: Clock
    ) -> None:
        self._link = link
        self._connect = connect
        self._terms = terms
        self._clock = clock
        #: held while an offer is taken: of two leaders, the one with the higher epoch wins whoever comes first
        self._offers = threading.Lock()
        self._epoch = terms.epoch
        self._address = ""
        #: the link to a new JobMaster, for the loop's thread; guarded by the lock
        self._offered: DroppableLink | None = None
        self._is_closed = False
        self._orphaned_ms: float | None = None
        self._cause = ""
        self._heartbeat: Heartbeat | None = None
        self._listener: Callable[[], None] = lambda: None
        self._watch: tuple[LoopWatch, Callable[[str], str]] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the leader that the slot belongs to."""
        return self._epoch

    @property
    def is_orphaned(self) -> bool:
        """Return whether the slot has no JobMaster at the moment."""
        return self._orphaned_ms is not None

    def offer(self, data: bytes) -> None:
        """Take the offer of a new JobMaster; any thread. Once it returns, the slot comes over.

        Args:
            data: from `AdoptionOffer.sealed`.

        Raises:
            AdoptionRefusedError: it does not; the message says why.
        """
        terms = self._terms
        offer = AdoptionOffer.opened(data, terms.token)
        if offer.protocol != PROTOCOL_VERSION:
            raise AdoptionRefusedError(f"protocol {offer.protocol} is not {PROTOCOL_VERSION}")
        if (offer.slot, offer.attempt) != (terms.slot, terms.attempt):
            raise AdoptionRefusedError(f"this is slot {terms.slot} of attempt {terms.attempt}")
        with self._offers:
            if self._is_closed or terms.orphan_timeout_ms <= 0:
                raise AdoptionRefusedError("the slot ends with its JobMaster")
            if offer.epoch == self._epoch and offer.address == self._address:
                # the answer to the first one was lost
                return
            if offer.epoch <= self._epoch:
                raise AdoptionRefusedError(f"epoch {offer.epoch} is not above {self._epoch}")
            try:
                link = self._connect(offer.address)
            except ControlLostError as error:
                raise AdoptionRefusedError(str(error)) from error
            self._epoch, self._address = offer.epoch, offer.address
            overtaken, self._offered = self._offered, link
        if overtaken is not None:
            overtaken.drop()
        self._listener()

    # --- ControlLink --------------------------------------------------------------------------------------------------

    def poll(self) -> JobMasterMessage | LeaderChanged | None:
        if self._offered is not None:
            return self._come_over()
        if self._orphaned_ms is not None:
            self._wait_for_adoption(self._orphaned_ms)
            return None
        try:
            return self._link.poll()
        except ControlLostError as error:
            if error.is_final or self._terms.orphan_timeout_ms <= 0:
                raise
            logger.warning("slot %s goes on without a JobMaster: %s", self._terms.slot, error)
            self._orphaned_ms, self._cause = self._clock.monotonic_ms(), str(error)
            return None

    def send(self, message: SlotMessage) -> None:
        if self._orphaned_ms is None:
            self._link.send(message)

    def publish(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._link.publish(heartbeat)

    def set_listener(self, on_message: Callable[[], None]) -> None:
        self._listener = on_message
        self._link.set_listener(on_message)

    def set_watch(self, watch: LoopWatch, redact: Callable[[str], str]) -> None:
        self._watch = (watch, redact)
        self._link.set_watch(watch, redact)

    def close(self) -> None:
        with self._offers:
            self._is_closed = True
            offered, self._offered = self._offered, None
        if offered is not None:
            offered.drop()
        self._link.close()

    # --- the loop's thread --------------------------------------------------------------------------------------------

    def _come_over(self) -> LeaderChanged:
        with self._offers:
            link, self._offered = self._offered, None
            epoch = self._epoch
        assert link is not None
        old, self._link = self._link, link
        old.set_listener(lambda: None)
        old.drop()
        if self._watch is not None:
            link.set_watch(*self._watch)
        link.set_listener(self._listener)
        if self._heartbeat is not None:
            link.publish(self._heartbeat)
        self._orphaned_ms = None
        logger.info("slot %s comes over to the JobMaster of epoch %d", self._terms.slot, epoch)
        return LeaderChanged(epoch)

    def _wait_for_adoption(self, since_ms: float) -> None:
        """Go on without a JobMaster.

        Raises:
            ControlLostError: not any longer.
        """
        timeout_ms = self._terms.orphan_timeout_ms
        if self._clock.monotonic_ms() - since_ms > timeout_ms:
            raise ControlLostError(f"{self._cause}; no other JobMaster has come within {timeout_ms / 1000:g} s")

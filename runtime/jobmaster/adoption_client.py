"""Asks slots to come over to this JobMaster, at the data servers whose addresses the job's placement names."""

from __future__ import annotations

import pyarrow.flight as flight

from runtime.network.tls import Transport
from runtime.task.control_session import ADOPT_ACTION, AdoptionOffer


def offer_adoption(address: str, offer: AdoptionOffer, token: str, timeout_s: float) -> None:
    """Offer a slot to adopt it; its report follows over the control stream that it opens. Any thread.

    Args:
        address: of the slot's data server.
        offer: what it is asked.
        token: of the slot's attempt.
        timeout_s: for the answer.

    Raises:
        FlightError: it cannot be reached, or refuses.
        pyarrow.ArrowException: its address is malformed.
        TlsError: one end has certificates, and the other has none.
    """
    client = Transport.of_environment().connect(address)
    try:
        action = flight.Action(ADOPT_ACTION, offer.sealed(token))
        list(client.do_action(action, flight.FlightCallOptions(timeout=timeout_s)))
    finally:
        client.close()

"""Asks slots to come over to this JobMaster, at the data servers whose addresses the job's placement names."""

from __future__ import annotations

import pyarrow.flight as flight

from runtime.task.control_session import ADOPT_ACTION, AdoptionOffer

_CLIENT_OPTIONS = [("grpc.enable_http_proxy", 0)]


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
    """
    client = flight.FlightClient(address, generic_options=_CLIENT_OPTIONS)
    try:
        action = flight.Action(ADOPT_ACTION, offer.sealed(token))
        list(client.do_action(action, flight.FlightCallOptions(timeout=timeout_s)))
    finally:
        client.close()

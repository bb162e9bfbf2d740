"""Addresses on which a process listens so that peers reach it by the name that they were told."""

from __future__ import annotations

import socket

import psutil
import pytest

from runtime.core.ids import Attempt, SlotId
from runtime.network.addresses import EVERY_INTERFACE, in_uri, listening_host, outward_host
from runtime.network.flight import FlightNetworkEnvironment

#: reserved for documentation: no machine has it
ELSEWHERE = "203.0.113.7"


def own_addresses() -> list[str]:
    """IPv4 addresses of this machine that are no loopback addresses."""
    found = [address for addresses in psutil.net_if_addrs().values() for address in addresses]
    return [a.address for a in found if a.family == socket.AF_INET and not a.address.startswith("127.")]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.1.1", "::1"])
def test_a_loopback_address_is_listened_on_alone(host: str) -> None:
    assert listening_host(host) == host


def test_an_address_of_this_machine_is_listened_on_alone() -> None:
    if not own_addresses():
        pytest.skip("this machine has loopback addresses only")
    for address in own_addresses():
        assert listening_host(address) == address


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.1.1", "::1"])
def test_an_executor_known_by_a_loopback_address_is_told_to_other_machines_by_one_that_reaches_it(host: str) -> None:
    told = outward_host(host, ELSEWHERE)
    assert told in own_addresses() or (not own_addresses() and told == socket.gethostname())
    assert outward_host(host, "alpha") == told, "a peer that is known by name"


@pytest.mark.parametrize(
    ("host", "peer"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost"), (ELSEWHERE, "alpha")]
)
def test_on_a_single_machine_and_by_another_address_the_host_stays(host: str, peer: str) -> None:
    assert outward_host(host, peer) == host


@pytest.mark.parametrize("host", [ELSEWHERE, "2001:db8::7", "no-such-host.invalid"])
def test_behind_an_address_of_another_machine_every_interface_is_listened_on(host: str) -> None:
    assert listening_host(host) == EVERY_INTERFACE


def test_a_slot_is_reached_by_every_address_of_its_machine_if_peers_know_it_by_another_ones() -> None:
    network = FlightNetworkEnvironment(SlotId(1), Attempt(1), "secret", ELSEWHERE)
    try:
        assert network.address.startswith(f"grpc+tcp://{ELSEWHERE}:")
        port = int(network.address.rpartition(":")[2])
        for host in ("127.0.0.1", *own_addresses()):
            with socket.create_connection((host, port), 5):
                pass
    finally:
        network.close()


def test_ipv6_addresses_stand_in_brackets() -> None:
    assert (in_uri("::1"), in_uri("10.0.0.1"), in_uri("beta")) == ("[::1]", "10.0.0.1", "beta")

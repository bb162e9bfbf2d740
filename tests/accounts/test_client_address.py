"""The address of a client: what its connection says, and X-Forwarded-For as far as named proxies have written it."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from backend.accounts.client_address import ForwardedClients, client_address, network_of_client
from backend.config.environment import EnvironmentProblem, Network, trusted_proxies

PROXIES: list[Network | str] = [ipaddress.ip_network("10.0.0.0/24"), ipaddress.ip_network("2001:db8::/32")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.5", "", "10.0.0.5"),
        ("10.0.0.5", "198.51.100.7", "198.51.100.7"),
        # what a client has made up stands left of what the proxy has seen
        ("10.0.0.5", "127.0.0.1, 192.0.2.1, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.5", "203.0.113.9, 198.51.100.7, 10.0.0.6", "198.51.100.7"),
        ("10.0.0.5", "10.0.0.7, 10.0.0.6", "10.0.0.7"),
        ("192.0.2.9", "198.51.100.7", "192.0.2.9"),
        ("127.0.0.1", "198.51.100.7", "127.0.0.1"),
        ("10.0.0.5", "198.51.100.7, unknown", "10.0.0.5"),
        ("10.0.0.5", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.5", "[2001:db9::1]:4711", "2001:db9::1"),
        ("2001:db8::5", "2001:db9::1", "2001:db9::1"),
        # as a socket that takes both versions shows addresses of version 4
        ("::ffff:10.0.0.5", "198.51.100.7", "198.51.100.7"),
        ("", "198.51.100.7", ""),
        ("10.0.0.5", "<script>", "10.0.0.5"),
    ],
)
def test_the_header_is_read_from_the_right_through_named_proxies_only(peer: str, forwarded: str, client: str) -> None:
    assert client_address(peer, forwarded, PROXIES) == client


def test_nobody_is_believed_unless_named() -> None:
    assert client_address("10.0.0.5", "198.51.100.7", []) == "10.0.0.5"


def test_whatever_connects_through_a_socket_of_this_machine_can_be_a_proxy() -> None:
    assert client_address("", "192.0.2.1, 198.51.100.7", ["unix"]) == "198.51.100.7"
    assert client_address("10.0.0.5", "198.51.100.7", ["unix"]) == "10.0.0.5"


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_the_application_gets_the_client_in_the_place_of_the_proxy(kind: str) -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    # a second header of the same name is a continuation of the first
    headers = [(b"x-forwarded-for", b"192.0.2.1"), (b"X-Forwarded-For", b"198.51.100.7")]
    scope = {"type": kind, "client": ("10.0.0.5", 4711), "headers": headers}
    await ForwardedClients(application, PROXIES)(scope, nothing, nothing)
    await ForwardedClients(application, [])(scope, nothing, nothing)
    assert seen == [("198.51.100.7", 0), ("10.0.0.5", 4711)]


def test_a_client_of_version_6_has_its_whole_network() -> None:
    assert network_of_client("2001:db8:1:2::3") == network_of_client("2001:db8:1:2:ffff::") == "2001:db8:1:2::/64"
    assert network_of_client("::ffff:192.0.2.1") == network_of_client("192.0.2.1") == "192.0.2.1"
    assert network_of_client("testclient") == "testclient"


def test_proxies_are_addresses_and_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_TRUSTED_PROXIES", "10.0.0.0/24, ::1,unix")
    assert trusted_proxies() == [ipaddress.ip_network("10.0.0.0/24"), ipaddress.ip_network("::1/128"), "unix"]
    for wrong in ("proxy.internal", "10.0.0.1/24", "*"):
        monkeypatch.setenv("TIDEMARK_TRUSTED_PROXIES", wrong)
        with pytest.raises(EnvironmentProblem, match="TIDEMARK_TRUSTED_PROXIES"):
            trusted_proxies()

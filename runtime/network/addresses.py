"""Addresses of listeners: the one that peers connect to, and the one to listen on so that they get through.

Source: Flink, `jobmanager.rpc.address` and `jobmanager.bind-host`, of which the second follows from the first here.
"""

from __future__ import annotations

import ipaddress
import socket

#: of both families, to gRPC
EVERY_INTERFACE = "0.0.0.0"
#: reserved for documentation (RFC 5737), so that the way there is the default route
_ANYWHERE = ("192.0.2.1", 9)


def listening_host(host: str) -> str:
    """Return the address to listen on for peers that connect to `host`.

    A loopback address remains one: nobody else is to get through. Of another host it is the address that the host has,
    if this machine has it too, else every interface: many systems give a machine's own name a loopback address
    (Debian: 127.0.1.1), and the address of a service or a published port belongs to another machine.

    Args:
        host: a name or an address, without brackets.
    """
    if host == "localhost" or _is_loopback(host):
        return host
    return next((address for address in _addresses(host) if _is_own(address)), EVERY_INTERFACE)


def outward_host(host: str, peer: str) -> str:
    """Return the host under which other machines reach this process, where `host` may be known on this machine alone.

    An executor beside its driver is known by a loopback address if the machine's name has one (Debian: 127.0.1.1).

    Args:
        host: this process's host, as told.
        peer: a host that is to reach it, as it is called everywhere; if that is a loopback address, so may this one be.
    """
    if not (_is_loopback(host) or host == "localhost") or peer == "localhost" or _is_loopback(peer):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # sends nothing: it only chooses the address to send from
            probe.connect(_ANYWHERE)
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])


def in_uri(host: str) -> str:
    """Return the host as it stands in a URI: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _addresses(host: str) -> list[str]:
    """Return the addresses of a host that are no loopback addresses; none if its name cannot be resolved."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    addresses = [str(address[0]) for *_, address in found]
    return [address for address in addresses if not _is_loopback(address)]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_own(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True

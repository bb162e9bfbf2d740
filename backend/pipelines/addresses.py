"""Which addresses this process connects to for users: the public ones, and those that the cluster's owner lists.

The names of an URL are resolved once, every address that comes out is judged, and the connection goes to one of exactly
those, so that a name that means something else a moment later leads nowhere. Judging is pure; resolving blocks. Used
for connections that are tested or described; code of jobs connects as it likes, from the slots.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import psycopg
import redis
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url

from backend.pipelines.deadline import Deadline

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Sequence[str]]

SETTING: Final = "TIDEMARK_OUTSIDE_ADDRESSES"
UNIX: Final = "unix"
"""Entry of the list that allows sockets of this machine."""
FIRST_FREE_PORT: Final = 1024
"""Ports below belong to services that neither PostgreSQL nor Redis is; who runs one there lists it with its port."""
#: of URLs of Redis; others name classes and hosts
_REDIS_OPTIONS: Final = {"db", "username", "password", "protocol", "client_name", "ssl_cert_reqs", "ssl_ca_certs"}
#: quotes nothing: where a password is not escaped, a part of it is taken for the port or the host
_UNREADABLE: Final = (
    "its host and port cannot be read; in an URL, the signs : / ? # [ ] @ and % of a user or a password are written as "
    "%3A, %2F, %3F, %23, %5B, %5D, %40 and %25"
)
_LEAST_S: Final = 0.001
"""Zero would mean that a socket does not wait."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
#: that Python counts among the public ones, in some versions or in all
_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        # of a site: what came before fc00::/7, and is still routed within some networks
        "fec0::/10",
        # for documentation
        "3fff::/20",
        # for protocols of the access network: DS-Lite, PCP, NAT64's discovery
        "192.0.0.0/24",
        # relays of 6to4, which are whoever announces them nearby
        "192.88.99.0/24",
        # segment routing within a network
        "5f00::/16",
        # NAT64 within a network: which addresses of version 4 it leads to is not known here
        "64:ff9b:1::/48",
    )
)


class AddressRefusedError(ValueError):
    """An address is not one that this process may connect to; the message may be shown to the user."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list.

    Attributes:
        network: addresses; None: those of `name`.
        name: a host, in lower case.
        port: None: every one from `FIRST_FREE_PORT` on.
    """

    network: Network | None
    name: str = ""
    port: int | None = None

    def takes(self, host: str, address: Address, port: int) -> bool:
        """Return whether the entry allows an address, which `host` was resolved to."""
        if (port < FIRST_FREE_PORT) if self.port is None else (port != self.port):
            return False
        return host.lower().rstrip(".") == self.name if self.network is None else address in self.network


class Outside:
    """The addresses that may be connected to.

    Args:
        listed: addresses, networks and host names, each perhaps with a port, and perhaps `UNIX`.
        resolve: returns the addresses of a host; raises OSError.

    Raises:
        ValueError: an entry cannot be read.
    """

    def __init__(self, listed: Iterable[str], resolve: Resolve | None = None) -> None:
        texts = list(listed)
        self._has_unix = UNIX in texts
        self._entries = [_entry(text) for text in texts if text != UNIX]
        self._resolve = resolve or _resolved

    def addresses(self, host: str, port: int) -> list[str]:
        """Resolve a host, and return its addresses, all of which may be connected to.

        Raises:
            AddressRefusedError: one of them may not.
            OSError: the host is not known.
        """
        found = [_address(text) for text in self._resolve(host, port)]
        for address in found:
            if not self._allows(host, address, port):
                told = host if str(address) == host else f"{host} ({address})"
                raise AddressRefusedError(
                    f"this cluster does not connect to {told} port {port}: {_kind(address, port)}. {SETTING} of the "
                    "web process lists what else is allowed"
                )
        return [str(address) for address in found]

    def check_socket(self) -> None:
        """Check that sockets of this machine may be used.

        Raises:
            AddressRefusedError: they may not.
        """
        if not self._has_unix:
            raise AddressRefusedError(
                f"it names no host, but a socket of this machine; {SETTING} does not list {UNIX!r}"
            )

    def _allows(self, host: str, address: Address, port: int) -> bool:
        if any(entry.takes(host, address, port) for entry in self._entries):
            return True
        return port >= FIRST_FREE_PORT and all(map(_is_public, (address, *_embedded(address))))


def pinned_conninfo(url: str, outside: Outside) -> str:
    """Return a connection string of PostgreSQL that leads to the judged addresses of its hosts only.

    Raises:
        AddressRefusedError: one of them may not be connected to.
        OSError: a host is not known.
        psycopg.ProgrammingError: the string cannot be read.
    """
    given: dict[str, Any] = dict(conninfo_to_dict(url))
    if given.get("service"):
        raise AddressRefusedError("it names a service, which may lead anywhere")
    hosts = _items(given, "host")
    numbers = _items(given, "hostaddr") or [""] * len(hosts)
    hosts = hosts or list(numbers)
    if not hosts:
        outside.check_socket()
        return url
    ports = [port or "5432" for port in _items(given, "port") or ["5432"]]
    ports = ports * len(hosts) if len(ports) == 1 else ports
    if len(numbers) != len(hosts) or len(ports) != len(hosts):
        raise AddressRefusedError("it has not as many ports or addresses as hosts")
    pinned: list[tuple[str, str, str]] = []
    for host, number, port in zip(hosts, numbers, ports, strict=True):
        if not number and (not host or host[0] in "/@"):
            outside.check_socket()
            pinned.append((host, "", port))
            continue
        if (parsed := _port(port)) is None:
            raise AddressRefusedError(_UNREADABLE)
        pinned += [(host, address, port) for address in outside.addresses(number or host, parsed)]
    columns = [",".join(column) for column in zip(*pinned, strict=True)]
    return make_conninfo(**{**given, **dict(zip(("host", "hostaddr", "port"), columns, strict=True))})


def connected_postgres(conninfo: str, deadline: Deadline) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect to the first of the hosts in a connection string that answers, for no longer than the deadline.

    Raises:
        psycopg.Error: none does.
        OSError: the deadline is over.
    """
    failure: Exception = TimeoutError("no host has answered in time")
    # one by one: the driver's limit is for each host
    for one in _one_by_one(conninfo_to_dict(conninfo)):
        if deadline.is_over:
            break
        try:
            # the driver waits for two seconds at least
            connection = psycopg.connect(make_conninfo(**one), connect_timeout=max(2, math.ceil(deadline.left_s)))
        except psycopg.OperationalError as error:
            failure = error
            continue
        deadline.watch(connection.fileno())
        return connection
    raise failure


def _one_by_one(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = {name: _items(given, name) for name in ("host", "hostaddr", "port")}
    count = max(map(len, columns.values()))
    if count <= 1:
        return [dict(given)]
    several = {name: column for name, column in columns.items() if len(column) == count}
    return [{**given, **{name: column[i] for name, column in several.items()}} for i in range(count)]


def pinned_redis(url: str, outside: Outside, deadline: Deadline, **options: Any) -> redis.Redis:
    """Return a client of the Redis at an URL that connects to the judged addresses of its host only; to be closed.

    Args:
        url: redis:// or rediss://, or unix:// if that is allowed.
        outside: what may be connected to.
        deadline: of all its connections.
        options: of the connections.

    Raises:
        AddressRefusedError: one of them may not be connected to.
        OSError: the host is not known.
        ValueError: the URL cannot be read.
    """
    try:
        _ = urlsplit(url).port
    except ValueError:
        # without its cause, which quotes what it has taken for the port
        raise ValueError(_UNREADABLE) from None
    given: Mapping[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    unknown = sorted(set(parse_qs(urlsplit(url).query)) - _REDIS_OPTIONS)
    if unknown:
        raise AddressRefusedError(f"the option {unknown[0][:40]!r} is not one that a connection has")
    kind = given.get("connection_class", Connection)
    if issubclass(kind, UnixDomainSocketConnection):
        outside.check_socket()
        unix = {**given, **options, "deadline": deadline, "connection_class": _WatchedUnix}
        return redis.Redis.from_pool(redis.ConnectionPool(**unix))
    host, port = str(given.get("host") or "localhost"), int(given.get("port") or 6379)
    addresses = outside.addresses(host, port)
    pinned = {**given, **options, "host": host, "port": port, "addresses": addresses, "deadline": deadline}
    pinned["connection_class"] = _PinnedTls if issubclass(kind, SSLConnection) else _Pinned
    return redis.Redis.from_pool(redis.ConnectionPool(**pinned))


class _Pinned(Connection):
    """A connection that resolves nothing, and lasts no longer than its deadline."""

    def __init__(self, *, addresses: Sequence[str], deadline: Deadline, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._addresses = addresses
        self._deadline = deadline

    def _connect(self) -> Any:
        name = self.host
        failure: OSError | None = None
        try:
            for address in self._addresses:
                if self._deadline.is_over:
                    break
                self.host = address
                self.socket_connect_timeout = self._deadline.left_s or _LEAST_S
                try:
                    connected = super()._connect()  # type: ignore[no-untyped-call]
                except OSError as error:
                    failure = error
                    continue
                self._deadline.watch(connected.fileno())
                return connected
        finally:
            # certificates are issued for the name
            self.host = name
        raise failure or OSError("no address of the host has answered in time")


class _PinnedTls(SSLConnection, _Pinned):
    """The same within TLS, which checks the certificate of the name."""


class _WatchedUnix(UnixDomainSocketConnection):
    """The same to a socket of this machine."""

    def __init__(self, *, deadline: Deadline, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._deadline = deadline

    def _connect(self) -> Any:
        connected = super()._connect()  # type: ignore[no-untyped-call]
        self._deadline.watch(connected.fileno())
        return connected


def _items(given: Mapping[str, Any], name: str) -> list[str]:
    text = str(given.get(name) or "")
    return text.split(",") if text else []


def _port(text: str) -> int | None:
    """Return a port; None: the text is none."""
    return int(text) if text.isdecimal() and 1 <= int(text) <= 65535 else None


def _resolved(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _address(text: str) -> Address:
    # an interface's name does not change whose address it is
    return ipaddress.ip_address(text.partition("%")[0])


def _embedded(address: Address) -> list[Address]:
    """Return addresses of version 4 that an address of version 6 leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or int(address) < 1 << 32:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return [each for each in found if each is not None]


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address in _NAT64):
        # as public as what is embedded, which is judged, too
        return True
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _kind(address: Address, port: int) -> str:
    for one in (address, *_embedded(address)):
        if one.is_loopback or one.is_unspecified:
            return "it is this machine"
        if one.is_link_local:
            return "it is a link-local address, as those of metadata services"
        if not _is_public(one):
            return "it is no public address"
    return f"ports below {FIRST_FREE_PORT} are for other services" if port < FIRST_FREE_PORT else "it is not listed"


def _entry(text: str) -> Entry:
    host, port = text, None
    head, colon, tail = text.rpartition(":")
    if colon and (":" not in head or head.endswith("]")):
        host, port = head, _port(tail)
        if port is None:
            raise ValueError(f"{SETTING}: {text!r} has no port behind its colon")
    host = host.removeprefix("[").removesuffix("]")
    try:
        return Entry(ipaddress.ip_network(host, strict=False), port=port)
    except ValueError:
        if "/" in host or not host:
            raise ValueError(f"{SETTING}: {text!r} is neither an address or network nor a host") from None
        return Entry(None, host.lower().rstrip("."), port)

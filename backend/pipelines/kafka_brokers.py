"""Asks a Kafka cluster who it is, over connections to judged addresses only.

A client of Kafka follows the addresses that brokers advertise, wherever they lead. So none is used here: a question and
its answer go over a socket that was connected to a judged address of a bootstrap server, the advertised addresses are
judged by the same rule before anything is sent to them, and each is then asked over such a socket, too. kafka-python
writes and reads the messages; it opens no connection. Blocking; any thread.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import kafka.errors as errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from backend.pipelines.addresses import AddressRefusedError, Outside
from backend.pipelines.deadline import Deadline
from runtime.connectors.kafka.properties import admin_properties, client_properties, tls_context

MAX_BROKERS: Final = 100
"""A cluster that advertises more is not asked: each is a connection."""
MAX_ANSWER_BYTES: Final = 8 << 20
"""Some 50,000 topics; what sends more is no cluster, or takes more memory than a test may."""
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: of Kafka 1.0 and later, all of which Kafka 4 still has
_VERSIONS: Final = {MetadataRequest: 5, SaslHandshakeRequest: 1, SaslAuthenticateRequest: 0}
_LEAST_S: Final = 0.001


class KafkaAwayError(OSError):
    """The brokers do not answer, or not as Kafka does; the message may be shown to the user, redacted."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Answers of a cluster's brokers about themselves.

    Attributes:
        cluster_id: "" if they do not tell.
        brokers: host and port that each advertises, all of which have answered.
        topics: names, without those of Kafka itself; those that the user may see.
    """

    cluster_id: str
    brokers: tuple[tuple[str, int], ...]
    topics: tuple[str, ...]


def ask_cluster(url: str, outside: Outside, deadline: Deadline) -> Cluster:
    """Ask a bootstrap server for its cluster, and each broker that is advertised whether it is there.

    Args:
        url: of the cluster, or host:port of its brokers, separated by commas.
        outside: what may be connected to.
        deadline: of all connections.

    Raises:
        AddressRefusedError: a bootstrap server, or an address that is advertised, may not be connected to.
        PropertyError: the URL cannot be read.
        OSError: a broker is not known, does not answer, or refuses.
    """
    properties = client_properties({"bootstrap.servers": url})
    login = _Login(properties)
    servers = [_host_and_port(server) for server in properties["bootstrap.servers"].split(",")]
    pinned = [(host, port, address) for host, port in servers for address in outside.addresses(host, port)]
    found = _first_answer(pinned, login, deadline)
    brokers = tuple((str(broker.host), int(broker.port)) for broker in found.brokers)
    if not 1 <= len(brokers) <= MAX_BROKERS:
        raise KafkaAwayError(f"the cluster advertises {len(brokers)} brokers")
    advertised = [(host, port, _judged(host, port, outside)) for host, port in brokers]
    for host, port, addresses in advertised:
        try:
            _first_answer([(host, port, address) for address in addresses], login, deadline)
        except OSError as error:
            raise KafkaAwayError(
                f"{host} port {port}, which the brokers advertise (advertised.listeners), cannot be used: {error}"
            ) from error
    topics = tuple(sorted(str(topic.name) for topic in found.topics if topic.name and not topic.is_internal))
    return Cluster(str(found.cluster_id or ""), brokers, topics)


def _judged(host: str, port: int, outside: Outside) -> list[str]:
    try:
        return outside.addresses(host, port)
    except AddressRefusedError as error:
        raise AddressRefusedError(f"a broker advertises an address to which clients would go on, but {error}") from None
    except OSError as error:
        raise KafkaAwayError(f"a broker advertises the host {host!r}, which is not known here: {error}") from error


def _first_answer(pinned: list[tuple[str, int, str]], login: _Login, deadline: Deadline) -> Any:
    """Return the metadata of the first of some addresses that answers."""
    failure: OSError = KafkaAwayError("no address has answered in time")
    for host, port, address in pinned:
        if deadline.is_over:
            break
        try:
            with _Asking(host, port, address, login, deadline) as asking:
                return asking.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        except OSError as error:
            failure = error
    raise failure


class _Login:
    """How to prove who one is, and who the broker is."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.settings = admin_properties(properties)
        protocol = self.settings["security_protocol"]
        if protocol not in _PROTOCOLS:
            raise ValueError(f"security.protocol must be one of {', '.join(_PROTOCOLS)}")
        self.tls = tls_context(properties) if protocol.endswith("SSL") else None
        self.mechanism: str | None = None
        if protocol.startswith("SASL"):
            self.mechanism = self.settings.get("sasl_mechanism", "").upper()
            if self.mechanism not in _MECHANISMS:
                raise ValueError(f"a test knows the SASL mechanisms {', '.join(_MECHANISMS)} only")
            if not {"sasl_plain_username", "sasl_plain_password"} <= self.settings.keys():
                raise ValueError(f"{self.mechanism} needs a user and a password")


class _Asking:
    """One connection to one address, on which questions are answered in turn. To be entered."""

    def __init__(self, host: str, port: int, address: str, login: _Login, deadline: Deadline) -> None:
        self._host = host
        self._login = login
        self._deadline = deadline
        self._protocol = KafkaProtocol(client_id="tidemark-test", receive_message_max_bytes=MAX_ANSWER_BYTES)
        self._socket = socket.create_connection((address, port), deadline.left_s or _LEAST_S)
        deadline.watch(self._socket.fileno())

    def __enter__(self) -> Self:
        try:
            if self._login.tls is not None:
                # certificates are issued for the name
                self._socket = self._login.tls.wrap_socket(self._socket, server_hostname=self._host)
            if self._login.mechanism is not None:
                self._log_in(self._login.mechanism)
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Any) -> Any:
        """Send a request; return its answer."""
        request.API_VERSION = _VERSIONS[type(request)]
        self._protocol.send_request(request)
        self._socket.settimeout(self._deadline.left_s or _LEAST_S)
        try:
            self._socket.sendall(self._protocol.send_bytes())
            while not self._deadline.is_over:
                self._socket.settimeout(self._deadline.left_s or _LEAST_S)
                data = self._socket.recv(1 << 16)
                if not data:
                    raise KafkaAwayError(
                        "the connection was closed: it may be a port for TLS, or one that wants a login"
                    )
                for _, answer in _told(partial(self._protocol.receive_bytes, data)):
                    return answer
        except ssl.SSLError as error:
            raise KafkaAwayError(f"TLS has failed: {error}") from error
        raise KafkaAwayError("it has not answered in time")

    def _log_in(self, name: str) -> None:
        answer = self.ask(SaslHandshakeRequest(mechanism=name))
        if answer.error_code:
            offered = ", ".join(map(str, answer.mechanisms))[:200]
            raise KafkaAwayError(f"the broker does not take the SASL mechanism {name}; it takes: {offered or 'none'}")
        mechanism = _told(lambda: get_sasl_mechanism(name)(host=self._host, **self._login.settings))
        while not mechanism.is_done():
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=_told(mechanism.auth_bytes)))
            if answer.error_code:
                raise KafkaAwayError(f"the broker refuses the user or the password: {answer.error_message or ''}")
            _told(partial(mechanism.receive, answer.auth_bytes))
        if not mechanism.is_authenticated():
            raise KafkaAwayError("the broker refuses the user or the password")


def _told(read: Callable[[], Any]) -> Any:
    """Return what kafka-python makes of bytes that anybody may have sent.

    Raises:
        KafkaAwayError: it does not understand them.
    """
    try:
        return read()
    except errors.KafkaError as error:
        raise KafkaAwayError(f"the answer is not Kafka's; it may be a port for TLS ({type(error).__name__})") from None
    # its decoders raise whatever the bytes lead them to: struct.error, IndexError, UnicodeDecodeError, …
    except Exception as error:
        raise KafkaAwayError(f"the answer is not Kafka's ({type(error).__name__})") from None


def _host_and_port(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise ValueError("a bootstrap server is host:port, with a port from 1 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)

"""Properties of Kafka's Java clients, as Flink's programs have them, for librdkafka and for kafka-python.

Most names are the same in librdkafka and pass through. Some have another name there, some make no difference, and some
(key stores of Java) cannot work: those are refused with what to write in their place. Values may be secrets. In place
of host:port, `bootstrap.servers` may be an URL with all that it takes to connect, as a connection's secret is.
Source: librdkafka, CONFIGURATION.md; Kafka, ConsumerConfig and ProducerConfig; Flink, KafkaSourceOptions.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from confluent_kafka import Consumer, KafkaException, Producer

from runtime.common.secrets import SecretRef, revealed, secret_text

Properties = Mapping[str, str | SecretRef]

DISCOVERY_INTERVAL: Final = "partition.discovery.interval.ms"
COMMIT_ON_CHECKPOINT: Final = "commit.offsets.on.checkpoint"
CLIENT_ID_PREFIX: Final = "client.id.prefix"
#: of Flink's source, not of a client
_OF_THE_SOURCE: Final = frozenset(
    {DISCOVERY_INTERVAL, COMMIT_ON_CHECKPOINT, CLIENT_ID_PREFIX, "register.consumer.metrics"}
)
#: what only a client in Java needs or does: it makes no difference to which records are read or written
_WITHOUT_EFFECT: Final = frozenset(
    {
        *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer", "config.providers"),
        *(
            "max.poll.records",
            "max.block.ms",
            "default.api.timeout.ms",
            "exclude.internal.topics",
            "metadata.max.idle.ms",
        ),
        *("auto.include.jmx.reporter", "metric.reporters", "interceptor.classes", "partition.assignment.strategy"),
        *("metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "security.providers"),
        *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"),
        *("socket.connection.setup.timeout.max.ms", "throw.on.fetch.stable.offset.unsupported"),
        *("ssl.truststore.type", "ssl.protocol", "ssl.provider", "ssl.enabled.protocols", "ssl.keymanager.algorithm"),
        *("ssl.secure.random.implementation", "ssl.trustmanager.algorithm"),
        *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor", "sasl.login.class"),
    }
)
#: classes of Java that would choose what is read or written
_JAVA_CLASSES: Final = {
    "partitioner.class": "a function to set_partitioner()",
    "partitioner.ignore.keys": "a function to set_partitioner()",
    "ssl.engine.factory.class": "librdkafka's ssl.* properties",
    "sasl.client.callback.handler.class": "librdkafka's sasl.* properties",
    "sasl.login.callback.handler.class": "librdkafka's sasl.* properties",
}
_OTHER_NAMES: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
}
_JAVA_STORES: Final = {
    "ssl.truststore.location": "ssl.ca.location, a file of PEM",
    "ssl.truststore.password": "ssl.ca.location, a file of PEM, which needs no password",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location, files of PEM",
}
_JAAS: Final = re.compile(r"""\b(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_FOR_KAFKA_PYTHON: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
#: of an URL: how to connect; what is read and written, and how, is the program's to say
URL_OPTIONS: Final = frozenset(
    {
        *("security.protocol", "sasl.mechanism", "ssl.endpoint.identification.algorithm", "ssl.key.password"),
        *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.key.location"),
    }
)
URL_SCHEME: Final = "kafka://"
DEFAULT_PORT: Final = 9092
#: quotes nothing: where a password is not escaped, a part of it is taken for a host or an option
_UNREADABLE: Final = (
    "the URL cannot be read; it is kafka://user:password@host:port,host:port?security.protocol=…, and in a user, a "
    "password or an option, the signs : / ? # [ ] @ & = and % are written as %3A, %2F, %3F, %23, %5B, %5D, %40, %26, "
    "%3D and %25"
)
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")


class PropertyError(ValueError):
    """A property is none of Kafka's, or has a value that it cannot have."""


def with_references(given: Properties) -> dict[str, str | SecretRef]:
    """Return properties in which values with references, such as ${env:KAFKA_PASSWORD}, are secrets.

    Raises:
        PropertyError: the servers are no text.
        ValueError: a reference is malformed.
    """
    servers = given.get("bootstrap.servers", "")
    if not isinstance(servers, str | SecretRef):
        raise PropertyError(f"bootstrap.servers is one text, host:port,host:port, not {servers!r:.100}")
    return {name: secret_text(value) for name, value in given.items()}


def switch(given: Properties, name: str, *, default: bool) -> bool:
    """Return whether a property that is true or false is true.

    Raises:
        PropertyError: it is neither.
    """
    text = str(given.get(name, default)).strip().lower()
    if text not in ("true", "false"):
        raise PropertyError(f"{name} is true or false, not {given[name]!r}")
    return text == "true"


def whole_number(given: Mapping[str, object], name: str, default: int) -> int:
    """Return a property that is a number.

    Raises:
        PropertyError: it is none.
    """
    value = given.get(name, default)
    try:
        return int(str(value))
    except ValueError:
        raise PropertyError(f"{name} is a whole number, not {value!r}") from None


def client_properties(given: Properties) -> dict[str, str]:
    """Return the properties for a client of librdkafka, with the values of secrets.

    Raises:
        PropertyError: one needs Java; the message names what takes its place.
    """
    found: dict[str, str] = {}
    for name, value in given.items():
        text = revealed(value)
        if name in _JAVA_CLASSES:
            raise PropertyError(f"{name}: classes of Java are not loaded here; give {_JAVA_CLASSES[name]}")
        if name in _JAVA_STORES:
            raise PropertyError(f"{name}: key stores of Java cannot be read here; give {_JAVA_STORES[name]}")
        if name == "sasl.jaas.config":
            found |= _of_jaas(text)
        elif name == "buffer.memory":
            found["queue.buffering.max.kbytes"] = str(max(1, whole_number({name: text}, name, 0) // 1024))
        elif name not in _OF_THE_SOURCE and name not in _WITHOUT_EFFECT:
            found[_OTHER_NAMES.get(name, name)] = text
    if not found.get("bootstrap.servers"):
        raise PropertyError("bootstrap.servers is missing: the host:port of at least one broker")
    if "://" in found["bootstrap.servers"]:
        in_url = url_properties(found.pop("bootstrap.servers"))
        return in_url | found
    return found


def url_properties(url: str) -> dict[str, str]:
    """Return the properties in an URL: kafka://user:password@host:port,host:port?security.protocol=SASL_SSL&…

    With a user and without `security.protocol`, that is SASL_SSL, and the mechanism PLAIN.

    Raises:
        PropertyError: it cannot be read, or has other options than URL_OPTIONS; the message quotes no value.
    """
    if not url.startswith(URL_SCHEME):
        raise PropertyError(f"the URL of a Kafka cluster begins with {URL_SCHEME}")
    authority, _, query = url.removeprefix(URL_SCHEME).partition("?")
    info, at, servers = authority.removesuffix("/").rpartition("@")
    found = [_SERVER.fullmatch(server) for server in servers.split(",")]
    user, colon, password = info.partition(":")
    if not all(found) or (at and not (user and colon and password)) or re.search(r"[/?#@:]", password):
        raise PropertyError(_UNREADABLE)
    properties = {"bootstrap.servers": ",".join(f"{one[1]}:{one[2] or DEFAULT_PORT}" for one in found if one)}
    if at:
        properties |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
        properties |= {"sasl.username": unquote(user), "sasl.password": unquote(password)}
    try:
        # "+" stands in passwords and in certificates, and means itself
        options = dict(parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise PropertyError(_UNREADABLE) from None
    if options.keys() - URL_OPTIONS:
        raise PropertyError(f"an option of the URL is none of {', '.join(sorted(URL_OPTIONS))}")
    return properties | options


def _of_jaas(text: str) -> dict[str, str]:
    found = {match[1]: match[2] or match[3] or "" for match in _JAAS.finditer(text)}
    if found.keys() != {"username", "password"}:
        raise PropertyError(
            "sasl.jaas.config: only login modules with a username and a password are understood; give sasl.mechanism "
            "and librdkafka's properties for others"
        )
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def admin_properties(given: Properties) -> dict[str, Any]:
    """Return the arguments of kafka-python's KafkaAdminClient for the same cluster, with the values of secrets.

    Raises:
        PropertyError: see `client_properties`.
    """
    properties = client_properties(given)
    found: dict[str, Any] = {
        argument: properties[name] for name, argument in _FOR_KAFKA_PYTHON.items() if name in properties
    }
    found["security_protocol"] = found.get("security_protocol", "PLAINTEXT").upper()
    found["bootstrap_servers"] = found["bootstrap_servers"].split(",")
    if properties.get("ssl.endpoint.identification.algorithm", "https") in ("", "none"):
        found["ssl_check_hostname"] = False
    if "ssl.ca.pem" in properties:
        # which has no argument for a text
        found["ssl_context"] = tls_context(properties)
    return found


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return what checks a broker's certificate, and has this client's.

    Args:
        properties: as `client_properties` returns them.

    Raises:
        PropertyError: a certificate or a key cannot be read.
    """
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
        )
        if "ssl.certificate.location" in properties:
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties.get("ssl.key.location"),
                properties.get("ssl.key.password", ""),
            )
    except (OSError, ValueError) as error:
        # without its cause, which may hold a path or a password
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise PropertyError(f"the certificates or the key cannot be read: {reason}") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https") in ("", "none"):
        context.check_hostname = False
    return context


def check_consumer(given: Properties) -> None:
    """Check properties of a consumer, without connecting.

    Raises:
        PropertyError: librdkafka knows no such property, or not that value of it.
    """
    try:
        Consumer({"group.id": "check", **_known_here(given), "log_level": 0}).close()
    except (KafkaException, ValueError) as error:
        raise _property_error(error) from error


def check_producer(given: Properties) -> None:
    """Check properties of a producer, without connecting.

    Raises:
        PropertyError: librdkafka knows no such property, or not that value of it.
    """
    try:
        Producer({**without_gaps(given), **_known_here(given), "log_level": 0}).purge()
    except (KafkaException, ValueError) as error:
        raise _property_error(error) from error


def without_gaps(given: Mapping[str, object]) -> dict[str, Any]:
    """Return what has a producer write in order and once, unless its properties rule that out, as in Kafka's client."""
    is_possible = (
        str(given.get("acks", "all")) in ("all", "-1")
        and str(given.get("retries", "1")) != "0"
        and whole_number(given, "max.in.flight.requests.per.connection", 5) <= 5
    )
    return {"enable.idempotence": is_possible}


def _known_here(given: Properties) -> dict[str, str]:
    """Return properties for a client that only checks them: the values of secrets are known to slots alone."""
    public = {name: value for name, value in given.items() if not isinstance(value, SecretRef)}
    servers = {"bootstrap.servers": "secret"} if "bootstrap.servers" in given else {}
    return client_properties(servers | public)


def _property_error(error: Exception) -> PropertyError:
    if isinstance(error, KafkaException):
        return PropertyError(str(error.args[0].str() if hasattr(error.args[0], "str") else error))
    return error if isinstance(error, PropertyError) else PropertyError(str(error))

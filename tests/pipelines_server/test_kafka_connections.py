"""Connections to Kafka: tested on a real broker, and on brokers that would lead the server elsewhere."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from kafka.protocol.metadata import MetadataResponse
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.pipelines import connections
from backend.pipelines.addresses import SETTING
from tests.connectors.kafka_broker import PASSWORD, USER, KafkaBroker, running_kafka
from tests.pipelines_server.documents import BASE
from tests.pipelines_server.hostile_servers import drips, is_silent, serving

CONNECTIONS = f"{BASE}/connections"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), is_secure=True) as running:
        running.create_topic("bids")
        running.create_topic("totals")
        yield running


@pytest.fixture
def here(settings: Settings) -> None:
    """Systems of this machine may be asked."""
    settings.TIDEMARK_OUTSIDE_ADDRESSES = ["127.0.0.0/8", "::1"]


@pytest.fixture
def tested(admins: APIClient, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that tests a connection with an URL."""
    assert admins.put(f"{CONNECTIONS}/kafka", {"kind": "kafka"}, format="json").json()["kind"] == "kafka"

    def test(url: str) -> dict[str, Any]:
        monkeypatch.setenv("TIDEMARK_SECRET_KAFKA_URL", url)
        return dict(admins.post(f"{CONNECTIONS}/kafka/test").json()["test"])

    return test


@pytest.mark.usefixtures("here")
def test_a_test_tells_of_cluster_brokers_and_topics(tested: Any, broker: KafkaBroker, api: APIClient) -> None:
    for url in (f"kafka://{broker.servers}", broker.servers):
        told = tested(url)
        assert told == {
            "ok": True,
            "message": "Kafka cluster dGlkZW1hcmsta2Fma2EtMQ: 1 broker answers, 2 topics are visible",
        }
    assert api.post(f"{CONNECTIONS}/kafka/describe").json()["names"] == ["bids", "totals"]
    refused = api.post(f"{CONNECTIONS}/kafka/describe", {"table": "bids"}, format="json")
    assert refused.status_code == 409 and "a topic has no columns" in refused.json()["errors"][0]["message"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_test_logs_in_within_tls(tested: Any, broker: KafkaBroker, mechanism: str) -> None:
    user, authority = quote(USER, safe=""), quote(Path(f"{broker.certificate}.crt").read_text(), safe="")
    servers, ca = f"localhost:{broker.secure_port}", f"ssl.ca.pem={authority}&sasl.mechanism={mechanism}"
    assert tested(f"kafka://{user}:{quote(PASSWORD, safe='')}@{servers}?{ca}")["ok"]
    wrong = tested(f"kafka://{user}:canary-31415@{servers}?{ca}")
    assert not wrong["ok"] and "refuses the user or the password" in wrong["message"]
    assert "canary" not in str(wrong)
    distrusted = tested(f"kafka://{user}:{quote(PASSWORD, safe='')}@{servers}?sasl.mechanism={mechanism}")
    assert not distrusted["ok"] and "CERTIFICATE_VERIFY_FAILED" in distrusted["message"]
    other_name = tested(f"kafka://{user}:{quote(PASSWORD, safe='')}@127.0.0.1:{broker.secure_port}?{ca}")
    assert not other_name["ok"] and "IP address mismatch" in other_name["message"]


@pytest.mark.usefixtures("here")
def test_a_port_of_another_protocol_is_told(tested: Any, broker: KafkaBroker) -> None:
    told = tested(f"kafka://127.0.0.1:{broker.secure_port}")
    assert not told["ok"] and "a port for TLS" in told["message"]
    told = tested(f"kafka://tide:geheim@{broker.servers}")
    assert not told["ok"] and "SSL" in told["message"]


def test_a_bootstrap_server_that_is_not_allowed_is_not_asked(tested: Any, broker: KafkaBroker) -> None:
    told = tested(f"kafka://{broker.servers}")
    assert not told["ok"] and "it is this machine" in told["message"] and SETTING in told["message"]


@pytest.mark.usefixtures("here")
def test_a_real_broker_that_advertises_a_forbidden_address_is_refused(tested: Any, tmp_path: Path) -> None:
    with running_kafka(tmp_path / "kafka", advertised="169.254.169.254:9092") as leading_elsewhere:
        told = tested(f"kafka://{leading_elsewhere.servers}")
    assert not told["ok"]
    assert "a broker advertises an address" in told["message"]
    assert "169.254.169.254 port 9092: it is a link-local address" in told["message"]


class Advertising:
    """A server that speaks just enough of Kafka to advertise brokers; counts its clients."""

    def __init__(self, *brokers: tuple[str, int]) -> None:
        self.brokers = brokers
        self.asked = 0

    def talk(self, sent: BufferedIOBase, answers: BufferedIOBase, is_over: threading.Event) -> None:
        while size := sent.read(4):
            request = sent.read(struct.unpack(">i", size)[0])
            self.asked += 1
            response = MetadataResponse(
                throttle_time_ms=0,
                brokers=[
                    MetadataResponse.MetadataResponseBroker(node_id=index, host=host, port=port, rack=None)
                    for index, (host, port) in enumerate(self.brokers)
                ],
                cluster_id="hostile",
                controller_id=0,
                topics=[],
            )
            response.API_VERSION = request[3]
            body = response.encode()
            answers.write(struct.pack(">i", len(body) + 4) + request[4:8] + body)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("10.0.0.7", 9092, "it is no public address"),
        ("169.254.169.254", 80, "link-local"),
        ("::ffff:169.254.169.254", 9092, "link-local"),
        ("8.8.8.8", 443, "ports below 1024"),
        ("no-such-host.invalid", 9092, "is not known here"),
    ],
)
def test_no_advertised_address_is_connected_to_before_all_are_allowed(
    tested: Any, host: str, port: int, why: str
) -> None:
    second = Advertising()
    with serving(second.talk) as allowed:
        first = Advertising(("127.0.0.1", allowed), (host, port))
        with serving(first.talk) as bootstrap:
            told = tested(f"kafka://127.0.0.1:{bootstrap}")
    assert not told["ok"] and why in told["message"] and "advertises" in told["message"]
    assert (first.asked, second.asked) == (1, 0)


@pytest.mark.usefixtures("here")
def test_a_broker_that_is_advertised_and_does_not_answer_is_named(tested: Any) -> None:
    with serving(is_silent) as closed:
        pass
    first = Advertising(("127.0.0.1", closed))
    with serving(first.talk) as bootstrap:
        told = tested(f"kafka://127.0.0.1:{bootstrap}")
    assert not told["ok"] and f"127.0.0.1 port {closed}, which the brokers advertise" in told["message"]


@pytest.mark.usefixtures("here")
def test_a_cluster_of_no_end_of_brokers_is_not_asked(tested: Any) -> None:
    first = Advertising(*(("127.0.0.1", 2000 + index) for index in range(101)))
    with serving(first.talk) as bootstrap:
        assert "advertises 101 brokers" in tested(f"kafka://127.0.0.1:{bootstrap}")["message"]


def _sends(*answers: bytes) -> Any:
    def talk(sent: BufferedIOBase, out: BufferedIOBase, is_over: threading.Event) -> None:
        sent.read(4)
        for answer in answers:
            out.write(answer)

    return talk


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "talk",
    [
        drips,
        is_silent,
        _sends(b"\x7f\xff\xff\xff"),
        _sends(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        _sends(struct.pack(">ii", 8, 1) + b"\xff\xff\xff\xff"),
        _sends(struct.pack(">i", -1)),
    ],
)
def test_what_is_no_kafka_is_told_in_time(tested: Any, talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ASK_S", 0.5)
    with serving(talk) as port:
        told = tested(f"kafka://127.0.0.1:{port}")
    assert not told["ok"] and told["message"]


@pytest.mark.parametrize(
    "url",
    [
        "kafka://tide:can/ary@127.0.0.1:9092",
        "kafka://tide:canary@",
        "kafka://127.0.0.1:9092?sasl.oauthbearer.token.endpoint.url=http://canary",
        "kafka://tide@127.0.0.1:9092?canary",
        "redis://canary:9092",
        "kafka://127.0.0.1:9092?security.protocol=canary",
        "kafka://tide:canary@127.0.0.1:9092?sasl.mechanism=GSSAPI",
        "kafka://127.0.0.1:9092?security.protocol=SASL_SSL&sasl.mechanism=PLAIN",
        "127.0.0.1",
    ],
)
def test_an_url_that_cannot_be_used_is_refused_without_quoting_it(tested: Any, url: str) -> None:
    told = tested(url)
    assert not told["ok"] and "canary" not in told["message"]

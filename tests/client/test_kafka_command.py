"""`tidemark kafka transactions`, with a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from runtime.client.cli import main
from runtime.operators.two_phase_commit import TransactionId
from tests.connectors.kafka_broker import KafkaBroker, running_kafka

pytestmark = pytest.mark.timeout(200)
OURS = f"totals-{TransactionId('origin', 'operator', 'c0ffee00112233', 3, 1, 7)}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as running:
        running.create_topic("numbers")
        yield running


def begin(broker: KafkaBroker, name: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("numbers", value)
    assert producer.flush(30) == 0


def test_open_transactions_are_listed_committed_and_aborted(
    broker: KafkaBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    begin(broker, OURS, b"1")
    begin(broker, "somebody-elses", b"2")
    properties = tmp_path / "client.properties"
    properties.write_text(f"# of the cluster\nbootstrap.servers = {broker.servers}\n")
    given = ("--properties", str(properties))
    listing = ("kafka", "transactions", "list", *given)
    assert main(listing) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in (OURS, "somebody-elses", "c0ffee00", "numbers-0", "Ongoing"))
    assert main((*listing, "--prefix", "totals", "--json")) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["id"], found["state"], found["partitions"]) == (OURS, "Ongoing", ["numbers-0"])
    # without a terminal nothing is done unasked
    assert main(("kafka", "transactions", "commit", *given, OURS)) == 1
    assert "-y does commit" in capsys.readouterr().err
    assert main(("kafka", "transactions", "commit", *given, "-y", OURS)) == 0
    assert main(("kafka", "transactions", "abort", *given, "-y", "somebody-elses", "somebody-elses")) == 0
    assert capsys.readouterr().out.splitlines() == [f"Committed {OURS}", "Aborted somebody-elses"]
    assert broker.values("numbers") == [b"1"]
    assert main(listing) == 0
    assert "no such transactions" in capsys.readouterr().out
    assert main((*listing, "--all")) == 0
    assert "CompleteAbort" in capsys.readouterr().out
    for name, why in ((OURS, "not open: it is CompleteCommit"), ("nobodys", "there is no transaction nobodys")):
        assert main(("kafka", "transactions", "abort", *given, "-y", name)) == 1
        assert why in capsys.readouterr().err


def test_wrong_usage_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("bootstrap.servers\n")
    java = tmp_path / "java"
    java.write_text("bootstrap.servers=localhost:1\nssl.truststore.location=/x.jks\n")
    for arguments, why in (
        ((), "which brokers?"),
        (("--properties", str(tmp_path / "none")), "cannot be read"),
        (("--properties", str(broken)), "no property"),
        (("--properties", str(java)), "ssl.ca.location"),
    ):
        assert main(("kafka", "transactions", "list", *arguments)) == 1
        assert why in capsys.readouterr().err

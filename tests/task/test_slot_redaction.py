"""Secrets of a slot's environment in what it reports."""

from __future__ import annotations

import pytest

from runtime.core.ids import Attempt, SlotId
from runtime.task.messages import MAX_CAUSE_CHARS, FailureInfo, RegisterSlot, SlotFailed
from runtime.task.slot_redaction import redaction_of
from runtime.task.slot_reports import SlotReports
from runtime.testing.clock import ManualClock
from tests.task.rigs import FakeControlLink


def test_values_of_variables_with_secret_names_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "c4n4ry/of/aws")
    monkeypatch.setenv("SHOP_TOKEN_FILE", "/run/secrets/shop")
    monkeypatch.setenv("MAX_TOKENS", "10000000")
    monkeypatch.setenv("SHOP_PASSWORD", "short")
    monkeypatch.setenv("OLDPWD", "/srv/shop/programs")
    monkeypatch.setenv("PWD", "/srv/shop")
    monkeypatch.setenv("SHOP_NAME", "the name of it")
    redact = redaction_of({("pg", "url"): "redis://:hunter22@h"})
    plain = "/run/secrets/shop 10000000 short the name of it /srv/shop/programs/orders.py:7"
    assert redact(plain) == plain
    assert redact("c4n4ry/of/aws hunter22") == "<environment.AWS_SECRET_ACCESS_KEY> <pg.url>"


def test_a_long_failure_is_shortened_when_its_secrets_are_out() -> None:
    """A secret at the cut would be there in two halves that nothing recognises."""
    link = FakeControlLink()
    reports = SlotReports(link, RegisterSlot(SlotId(0), Attempt(0), 1, "localhost", ""), ManualClock())
    reports.redact = redaction_of({("pg", "url"): "redis://:hunter2-and-more@h"})
    half = "x" * (MAX_CAUSE_CHARS // 2 - 8)
    reports.slot_failed(FailureInfo(f"{half}hunter2-and-more{half * 10}", "trace"))
    told = link.sent[-1]
    assert isinstance(told, SlotFailed)
    assert len(told.failure.message) < MAX_CAUSE_CHARS + 100 and told.failure.traceback == "trace"
    assert told.failure.message.startswith(f"{half}<pg.url> … (") and "hunter" not in told.failure.message

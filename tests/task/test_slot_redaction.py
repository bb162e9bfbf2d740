"""Secrets of a slot's environment in what it reports."""

from __future__ import annotations

import pytest

from runtime.task.slot_redaction import redaction_of


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

"""Values of secrets are taken out of texts in all the forms that programs, parsers and literals give them."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest

from runtime.core.redaction import Redaction
from runtime.metrics import MetricRegistry

VALUE = "postgresql://tide:c%40nary-9@db/shop"


@pytest.mark.parametrize(
    ("value", "leaks"),
    [
        (VALUE, ["c%40nary-9", "c@nary-9"]),
        ("host=db password=canary-9 user=x", ["canary-9"]),
        ("host=db password='canary 9' user=x", ["canary 9"]),
        ("http://[broken", []),
    ],
)
def test_values_and_their_passwords_are_taken_out_of_texts(value: str, leaks: list[str]) -> None:
    redact = Redaction({("pg", "url"): value, ("other", "pin"): "12"})
    assert redact.of_json({"url": [value, 7]}) == {"url": ["<pg.url>", 7]}
    for leak in (value, *leaks):
        assert redact(f"no way to {leak}; 12") == "no way to <pg.url>; 12"


@pytest.mark.parametrize(
    ("value", "leaks"),
    [
        # what urlsplit and libpq take for a port, a path, a host or an option
        ("redis://:hunter2/x9zz@host:6379", ["hunter2", "x9zz"]),
        ("postgresql://u:hunter2/x9zz@h/db", ["hunter2", "x9zz"]),
        ("postgresql://u:hunter2?x9zz@h/db", ["hunter2", "x9zz"]),
        ("redis://u:hunter2#x9zz=@h", ["hunter2", "x9zz"]),
        ("redis://:hunter2?x9zz=1@h", ["hunter2", "x9zz"]),
        ("redis://:Hunter2@x9ZZ/y@h", ["Hunter2", "x9ZZ", "x9zz"]),
        ("redis://:hun[x9zz]ter2@h", ["x9zz", "ter2"]),
        ("postgresql://u:hunter2/%7ax9z@h/db", ["%7ax9z", "zx9z"]),
        # without the user's ":", and without a host
        ("redis://hunter2/x9zz@host:6379", ["hunter2", "x9zz"]),
        ("redis://:hunter2", ["hunter2"]),
        ("redis://:hunter2/0", ["hunter2"]),
        ("postgresql://h/db?user=me&password=hunter2&sslmode=require", ["hunter2"]),
        ("postgresql://h/db?sslpassword=hunter2", ["hunter2"]),
        ("postgresql://h/db?password=hunter%32", ["hunter%32", "hunter2"]),
    ],
)
def test_pieces_of_a_password_whose_signs_are_not_escaped_are_taken_out(value: str, leaks: list[str]) -> None:
    redact = Redaction({("pg", "url"): value})
    for leak in leaks:
        assert redact(f"no port: '{leak}'") == "no port: '<pg.url>'"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("postgresql://postgres:canary-9@data.example:5432/shop", ["postgres", "data.example", "5432", "shop"]),
        ("postgresql://user@server:canary-9@data.example/shop", ["user", "server", "data.example", "shop"]),
        ("postgresql://user:canary-9@data/shop?application_name=jobs@noon", ["user", "data", "shop", "jobs", "noon"]),
        ("redis://user@data:6379/0", ["user", "data", "6379"]),
        ("redis://data:6379/0?client_name=me@home", ["data", "home"]),
        ("redis://[fd00::abcd]:6379", ["fd00", "abcd", "6379"]),
        ("postgresql://data:5432,more:5433/shop", ["data", "5432", "more", "5433", "shop"]),
    ],
)
def test_users_and_hosts_stay_in_texts(value: str, kept: list[str]) -> None:
    redact = Redaction({("pg", "url"): value})
    for text in kept:
        assert redact(f"'{text}' has not answered") == f"'{text}' has not answered"


@pytest.mark.parametrize("value", ["c%40nary-9", "top/c4n4ry", "a:c4n4ry@x", "two words c4n4ry"])
def test_values_of_references_are_taken_out_as_parsers_of_urls_cut_them(value: str) -> None:
    redact = Redaction({("env:", "SHOP"): value})
    assert redact(f"cannot reach {value}") == "cannot reach <env:SHOP>"
    for text in (value, value.replace("%40", "@"), value.partition("/")[2] or value):
        assert "anary" not in redact(f"port {text!r}") and "c4n4ry" not in redact(f"port {text!r}")


@pytest.mark.parametrize(
    "value", ["c4n4ry\nsecond-line\twith a tab", "c4n4ry\"q\\uo'te", "c4n4ry-Ünïcödé-€", "c4n4ry'it's"]
)
@pytest.mark.parametrize(
    "write",
    [
        str,
        repr,
        ascii,
        json.dumps,
        lambda value: repr([value]),
        lambda value: repr({"password": value}),
        lambda value: str(KeyError(value)),
        lambda value: str(value.encode()),
        lambda value: json.dumps({"password": value}, ensure_ascii=False),
        lambda value: f"https://host/?q={quote(value)}",
        lambda value: f"https://host/{quote(value, safe='')}/x",
        lambda value: quote_plus(value),
        lambda value: urlencode({"password": value}),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
        lambda value: value.encode().hex(),
        lambda value: html.escape(value),
        lambda value: json.dumps(json.dumps({"password": value})),
        lambda value: repr(repr([value])),
        lambda value: json.dumps(value).replace("/", "\\/"),
        lambda value: re.sub("%..", lambda found: found[0].lower(), quote(value)),
    ],
)
def test_a_value_is_taken_out_in_whatever_form_it_is_written(value: str, write: Callable[[str], str]) -> None:
    shown = Redaction({("pg", "password"): value})(write(value))
    assert "<pg.password>" in shown
    assert "4n4ry" not in shown and "nary" not in shown and "YzRuNH" not in shown


def test_each_line_of_a_value_is_taken_out_but_those_that_tell_nothing() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\n-----END PRIVATE KEY-----\n"
    redact = Redaction({("tls", "key"): key})
    assert redact(key) == "<tls.key>"
    shown = [redact(line) for line in key.splitlines()]
    assert shown == ["-----BEGIN PRIVATE KEY-----", "<tls.key>", "<tls.key>", "-----END PRIVATE KEY-----"]


@pytest.mark.parametrize("user", ["", "u", "me", "you", "admin"])
def test_a_password_behind_a_user_in_base64_is_taken_out(user: str) -> None:
    redact = Redaction({("pg", "password"): "c4n4ry-is-long-9"})
    header = base64.b64encode(f"{user}:c4n4ry-is-long-9".encode()).decode()
    shown = redact(f"Authorization: Basic {header}")
    assert "<pg.password>" in shown and len(shown) < len("Authorization: Basic <pg.password>") + len(user) * 2 + 6


def test_what_is_beside_a_secret_in_a_file_stays_in_texts() -> None:
    properties = (
        "security.protocol=SASL_SSL\nbootstrap: localhost:9092\n========\nusername: root\npassword = c4n4ry=9\n"
    )
    redact = Redaction({("kafka", "client"): properties, ("a", "blank"): "    ", ("b", "json"): '{"password": "None"}'})
    text = "    ======== SASL_SSL at localhost:9092, security.protocol=SASL_SSL, username: root, None"
    assert redact(text) == text
    assert redact("c4n4ry=9") == "<kafka.client>"


@pytest.mark.parametrize("value", ['{"users": [{"password": "c4n4ry-9"}]}', '[{"auth": {"token": "c4n4ry-9"}}]'])
def test_what_is_secret_in_lists_of_json_is_taken_out(value: str) -> None:
    assert Redaction({("a", "users"): value})("no c4n4ry-9") == "no <a.users>"


def test_what_is_secret_in_json_is_taken_out_alone() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n"
    account = {"type": "service_account", "project": "my-shop", "auth": {"private_key": key, "token": "t0p-53cr37"}}
    redact = Redaction({("gcs", "account"): json.dumps(account)})
    assert redact(f"{key!r} {key} t0p-53cr37 my-shop") == "<gcs.account>".join(["'", "' ", " ", " my-shop"])
    assert Redaction({("gcs", "account"): "{broken"})("{broken") == "<gcs.account>"


def test_names_of_metrics_are_redacted() -> None:
    registry = MetricRegistry(redact=Redaction({("pg", "password"): "c4n4ry-9"}))
    group = registry.root("operator").add_group("of c4n4ry-9")
    group.counter("reads c4n4ry-9").inc()
    group.gauge("last", lambda: "c4n4ry-9")
    of_group = "operator.of <pg.password>"
    assert registry.snapshot() == {f"{of_group}.reads <pg.password>": 1, f"{of_group}.last": "<pg.password>"}
    registry.unregister("operator.of c4n4ry-9")
    assert len(registry) == 0

"""The redactor: one canary through every shape in which secrets come along."""

from __future__ import annotations

import io
import logging

import pytest

from backend.audit.redaction import (
    HIDDEN,
    RedactingFilter,
    for_users,
    redacted,
    redacted_arguments,
    redacted_text,
    redacted_together,
    secret_arguments,
    secret_options,
)

CANARY = "c4n4ry-Secret"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{CANARY}@db.example/tide",
        f"redis://:{CANARY}@127.0.0.1:6379/0",
        f"jdbc:postgresql://db/x?user=me&password={CANARY}&ssl=true",
        f"https://bucket/x?sig=1&access_token={CANARY}",
        f"host=db user=me password={CANARY} dbname=x",
        f"host=db user=me password='{CANARY} with spaces' dbname=x",
        f'{{"accessKeyId": "{CANARY}"}}',
        f"{{'my.pwd': '{CANARY}'}}",
        f"AccountKey={CANARY};EndpointSuffix=core",
        f"Authorization: Bearer {CANARY}",
        f"aws_secret_access_key = {CANARY}",
        f"client(token='{CANARY}')",
        f"ValueError: no server at kafka://me:{CANARY}@broker:9092",
        f'sasl.jaas.config=org.X required username="me" password="{CANARY}";',
        # signs that passwords have, too
        f"password=foo,{CANARY}",
        f"password=foo;{CANARY}&x=1",
        f"password=foo'{CANARY}",
        f"password=foo({CANARY}",
        f"postgresql://me:foo@{CANARY}@db/x",
        f"postgresql://me:foo/{CANARY}@db/x",
        f"kafka://me:foo@a:1,you:{CANARY}@b:2/",
        f'{{\\"password\\": \\"{CANARY}\\"}}',
        f"password=b'{CANARY}'",
        f"('password', '{CANARY}')",
        f"<db:password>{CANARY}</db:password>",
        f"Authorization: Digest {CANARY}",
        f"Cookie: a=b; tidemark-session={CANARY}",
        f"https://bucket/x?sv=1&sig={CANARY}",
        f"https://bucket/x?X-Amz-Signature={CANARY}",
        f"SharedAccessSignature={CANARY}",
        f"pass={CANARY}",
        f"Method Not Allowed: /tide/login/{CANARY}/",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY.replace('-', '/')}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_secret_behind_its_name_is_hidden(text: str) -> None:
    shown = redacted_text(text)
    assert CANARY not in shown and CANARY.replace("-", "/") not in shown and HIDDEN in shown
    assert redacted_text(shown) == shown


def test_references_tell_nothing_and_are_shown() -> None:
    reference = "${env:DB_PASSWORD}"
    assert redacted_text(f"password={reference} token: {reference}") == f"password={reference} token: {reference}"
    assert redacted_arguments(["--db-password", reference]) == ["--db-password", reference]
    given = {"db.password": reference, "pipeline.global-job-parameters": f"db-key:{reference},x.token:${{file:/a/b}}"}
    assert redacted(given) == given and secret_options(given) == {}
    # beside something else they are as good as that
    assert redacted({"db.password": f"{CANARY}{reference}"}) == {"db.password": HIDDEN}
    assert CANARY not in redacted_text(f"password={reference}{CANARY}")
    assert CANARY not in redacted_text(f"password={CANARY}{reference}")
    assert CANARY not in redacted_arguments(["--db-password", f"{reference}{CANARY}"])[1]


@pytest.mark.parametrize(
    "text",
    [
        "the job has 12 keys and a token bucket",
        "key_by(lambda row: row.key)",
        "password=None, token: null",
        "at 12:30:05 http://localhost:8000/ui/ was opened",
        "KeyError: 'airport'",
        "the signature of the function: it takes two",
        "no server for '<arguments.db-password>': it says <pg-main.password> <x>",
        "compass: 12, design=3, passing: all",
        "a job at http://localhost:8000/ and user@example.org",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted_text(text) == text


def test_options_are_hidden_by_name_and_by_what_is_in_them() -> None:
    options = {
        "my.pwd": CANARY,
        "s3.accessKeyId": CANARY,
        "s3.access-key": CANARY,
        "sink.password": CANARY,
        "fs.azure.account.key": CANARY,
        "source.url": f"postgres://me:{CANARY}@db/x?a=1",
        "source.dsn": f"host=db password={CANARY}",
        "pipeline.global-job-parameters": f"user:me,password:foo;{CANARY},key:{CANARY},x:1",
        "parallelism.default": "4",
        "partition.key.column": "airport",
    }
    shown = redacted(options)
    assert CANARY not in str(shown)
    assert shown["parallelism.default"] == "4" and shown["partition.key.column"] == "airport"
    assert shown["pipeline.global-job-parameters"].startswith("user:me,password:")


def test_arguments_are_hidden_in_pairs_and_alone() -> None:
    arguments = [
        "--url",
        f"postgres://me:{CANARY}@db/x",
        "--db-password",
        CANARY,
        f"--token={CANARY}",
        f"--token=true, {CANARY}",
        f"--pwd=foo bar '{CANARY}",
        "-password",
        CANARY,
        "--verbose",
        "--rows",
        "10",
        "--secret",
        "--last",
    ]
    shown = redacted_arguments(arguments)
    assert CANARY not in str(shown)
    assert shown[-5:] == ["--verbose", "--rows", "10", "--secret", "--last"]


def test_log_records_are_hidden_with_their_arguments_and_tracebacks() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RedactingFilter())
    logger = logging.Logger("redacted")
    logger.addHandler(handler)
    logger.warning("no server at %s after %d s", f"redis://:{CANARY}@db:1", 5)
    try:
        raise ValueError(f"password={CANARY}")
    except ValueError:
        logger.exception("it failed")
    assert CANARY not in stream.getvalue()
    assert "after 5 s" in stream.getvalue() and "ValueError" in stream.getvalue()


def test_long_text_takes_no_time() -> None:
    """Patterns that try again from every place would take minutes."""
    for text in (
        "a" * 200_000 + " token",
        "password" * 20_000,
        "://" + "x" * 200_000,
        "token='" + "\\" * 100_000,
        "password=${env:" * 20_000,
        "://a:" * 20_000,
        "password=a," * 20_000,
        "<password" * 20_000,
        "'password'," * 20_000,
        "cookie" * 20_000,
        "-----BEGIN " * 20_000,
    ):
        assert CANARY not in for_users(f"{text}\npassword={CANARY}")


@pytest.mark.parametrize("piece", [" ", "a", " a", ",", "a=", "a,b ", "password=", "password = ", "b:x ,", "{a:"])
def test_long_values_of_maps_take_no_time(piece: str) -> None:
    text = f"a=b{piece * 50_000}\npassword={CANARY}"
    assert CANARY not in redacted({"pipeline.global-job-parameters": text})["pipeline.global-job-parameters"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rate:3,password:x", "rate:3,password:******"),
        ("{password:x}", "{password:******"),
        ("password:a,b c;d, rate:3", "password:******, rate:3"),
        ("password:x\u00a0token:y,rate:3", "password:******\u00a0token:******,rate:3"),
        ("password:a:b,rate:3", "password:******,rate:3"),
        ("password:${env:NAME},rate:3", "password:${env:NAME},rate:3"),
        ("password:,rate:3", "password:,rate:3"),
        ("", ""),
        ("no entry", "no entry"),
        ("my.password = x rate = 3", "my.password = ****** rate = 3"),
    ],
)
def test_values_of_maps_are_hidden_up_to_the_next_name(text: str, shown: str) -> None:
    assert redacted({"job-parameters": text}) == {"job-parameters": shown}


def test_what_quotes_a_secret_of_another_part_is_hidden() -> None:
    given = {
        "arguments": ["--password", CANARY],
        "options": {"pipeline.name": f"nightly {CANARY}", "b.password": "another-secret"},
        "name": "of another-secret",
        "lines": [["no", CANARY], 3],
    }
    shown = redacted_together(given)
    assert CANARY not in str(shown) and "another-secret" not in str(shown)
    assert shown["arguments"] == ["--password", HIDDEN] and shown["lines"][1] == 3


def test_what_is_hidden_can_be_looked_for_elsewhere() -> None:
    given = [
        "--db-password",
        CANARY,
        f"--token={CANARY}1",
        f"redis://:{CANARY}@h",
        "--max-tokens",
        "1000",
        "--pwd",
        "short",
    ]
    url = f"redis://:{CANARY}@h"
    assert secret_arguments(given) == {"db-password": CANARY, "token": f"{CANARY}1", "3": url}
    options = {"a.password": CANARY, "url": url, "b": "c", "my.token": "None", "x.secret": "12345678"}
    assert secret_options(options) == {"a.password": CANARY, "url": url}

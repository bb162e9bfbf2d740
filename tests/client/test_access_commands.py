"""`tidemark user` and `tidemark token`: what they ask, what they print, and where passwords come from."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.fake_cluster import FakeCluster

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
DORA: dict[str, Any] = {
    "name": "dora",
    "role": "operator",
    "is_active": False,
    "has_password": True,
    "last_login": None,
    "tokens": 2,
}
ENTRY: dict[str, Any] = {
    "id": 7,
    "name": "dashboard",
    "user": "dora",
    "scope": "viewer",
    "created_at": 0,
    "expires_at": None,
    "last_used": None,
}


def sent(cluster: FakeCluster) -> tuple[str, str, Any]:
    return cluster.calls[-1]


def test_users_are_listed(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {"GET /api/v1/users": (200, {"users": [DORA]})}
    assert tidemark("user", "list") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "ROLE", "LAST", "LOGIN", "TOKENS"],
        ["dora", "operator", "(off)", "-", "2"],
    ]


def test_a_password_comes_from_stdin_and_is_not_shown(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.answers = {"POST /api/v1/users": (201, DORA)}
    monkeypatch.setattr("sys.stdin", io.StringIO("a long password\n"))
    assert tidemark("user", "add", "dora", "--role", "operator", "--password") == 0
    assert sent(cluster)[2] == {"name": "dora", "role": "operator", "password": "a long password"}
    assert "password" not in capsys.readouterr().out


class Keyboard(io.StringIO):
    """A terminal at which somebody presses Ctrl-D."""

    def isatty(self) -> bool:
        return True


def end_of_input(prompt: str) -> str:
    raise EOFError


@pytest.mark.parametrize("stdin", [Keyboard(), io.StringIO(), None])
def test_no_password_is_an_error_of_one_line(
    tidemark: Tidemark,
    cluster: FakeCluster,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    stdin: io.StringIO | None,
) -> None:
    monkeypatch.setattr("getpass.getpass", end_of_input)
    monkeypatch.setattr("sys.stdin", stdin)
    assert tidemark("user", "add", "dora", "--role", "operator", "--password") == 1
    assert capsys.readouterr().err == "tidemark: the password is empty\n"
    assert cluster.calls == []


def test_a_user_is_changed_and_deleted(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {"PATCH /api/v1/users/dora": (200, DORA), "DELETE /api/v1/users/dora": (200, {})}
    assert tidemark("user", "set", "dora", "--role", "operator", "--off") == 0
    assert sent(cluster)[2] == {"role": "operator", "is_active": False}
    assert tidemark("user", "set", "dora") == 1
    assert "say what to change" in capsys.readouterr().err
    assert tidemark("user", "delete", "dora") == 0
    assert sent(cluster)[:2] == ("DELETE", "/api/v1/users/dora")


def test_a_token_is_printed_alone(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {"POST /api/v1/tokens": (201, {"token": "s3cret", "entry": ENTRY})}
    assert tidemark("token", "make", "dashboard", "--scope", "viewer", "--days", "0") == 0
    assert sent(cluster)[2] == {"name": "dashboard", "days": None, "scope": "viewer"}
    assert capsys.readouterr().out == "s3cret\n"


def test_tokens_are_listed_and_revoked(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers = {"GET /api/v1/tokens": (200, {"tokens": [ENTRY]}), "DELETE /api/v1/tokens/7": (200, {})}
    assert tidemark("token", "list", "--all", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [ENTRY]
    assert tidemark("token", "revoke", "7") == 0
    assert sent(cluster)[:2] == ("DELETE", "/api/v1/tokens/7")


def test_what_the_server_refuses_is_told(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    refusal = {"errors": [{"code": "conflict", "field": "", "message": "This is the last administrator."}]}
    cluster.answers = {"DELETE /api/v1/users/root": (409, refusal)}
    assert tidemark("user", "delete", "root") == 1
    assert "This is the last administrator." in capsys.readouterr().err

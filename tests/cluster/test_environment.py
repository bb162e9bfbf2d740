"""Variables read from the environment, and the secrets of a home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.config import environment
from backend.config.environment import EnvironmentProblem
from tests.cluster.stack import ROOT


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_secret_is_made_once_and_kept_for_its_owner(home: Path) -> None:
    first = environment.ensure_secret("admin-token", None)
    assert environment.ensure_secret("admin-token", None) == first
    assert len(first) >= 32
    assert (home / "admin-token").stat().st_mode & 0o777 == 0o600
    assert environment.ensure_secret("admin-token", "given") == "given"
    assert [path.name for path in home.iterdir()] == ["admin-token"]


def test_a_secret_that_is_replaced_stays_private(home: Path) -> None:
    environment.ensure_secret("redis-url", None)
    environment.write_secret("redis-url", "redis://:x@127.0.0.1:1/0")
    assert environment.read_secret("redis-url") == "redis://:x@127.0.0.1:1/0"
    assert (home / "redis-url").stat().st_mode & 0o777 == 0o600


def test_the_database_is_sqlite_in_the_home_unless_a_url_says_otherwise(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    sqlite = environment.database()
    assert sqlite["NAME"] == str(home / "db.sqlite3")
    assert sqlite["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    monkeypatch.setenv("DATABASE_URL", "postgres://me:p%40ss@db.example:5433/tide?sslmode=require")
    postgres = environment.database()
    assert (postgres["USER"], postgres["PASSWORD"], postgres["HOST"], postgres["PORT"], postgres["NAME"]) == (
        "me",
        "p@ss",
        "db.example",
        "5433",
        "tide",
    )
    assert postgres["OPTIONS"]["sslmode"] == "require"
    monkeypatch.setenv("DATABASE_URL", "mysql://x")
    with pytest.raises(EnvironmentProblem, match="postgres"):
        environment.database()


def test_a_prefix_in_redis_is_none_that_matches_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEMARK_REDIS_PREFIX", raising=False)
    assert environment.redis_prefix() == "tidemark"
    monkeypatch.setenv("TIDEMARK_REDIS_PREFIX", "acme:tidemark-1")
    assert environment.redis_prefix() == "acme:tidemark-1"
    monkeypatch.setenv("TIDEMARK_REDIS_PREFIX", "acme*")
    with pytest.raises(EnvironmentProblem, match="TIDEMARK_REDIS_PREFIX=acme"):
        environment.redis_prefix()


def test_a_database_that_hangs_is_given_up_unless_the_url_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://db/tide")
    given = environment.database()["OPTIONS"]
    assert int(given["connect_timeout"]) <= 10 and int(given["tcp_user_timeout"]) <= 30_000
    assert "-c lock_timeout=" in given["options"] and "-c statement_timeout=" in given["options"]
    monkeypatch.setenv("DATABASE_URL", "postgres://db/tide?connect_timeout=60&options=")
    changed = environment.database()["OPTIONS"]
    assert changed == given | {"connect_timeout": "60", "options": ""}


@pytest.mark.parametrize("value", ["abc", "0", "-1", "70000", "1.5"])
def test_a_port_that_is_none_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_PORT", value)
    with pytest.raises(EnvironmentProblem, match=f"TIDEMARK_PORT={value}"):
        environment.port()


def test_the_slots_live_in_the_taskmanager_unless_a_master_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SLOTS", "6")
    monkeypatch.delenv("TIDEMARK_SPARK_MASTER", raising=False)
    assert environment.spark_master() == "local[6,1]"
    monkeypatch.setenv("TIDEMARK_SPARK_MASTER", "spark://master:7077")
    assert environment.spark_master() == "spark://master:7077"


def test_any_host_is_no_host(home: Path) -> None:
    result = subprocess.run(
        (sys.executable, "manage.py", "check"),
        cwd=ROOT,
        env={**os.environ, "TIDEMARK_ALLOWED_HOSTS": "*", "DJANGO_SETTINGS_MODULE": "backend.config.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert "without *" in result.stderr


SHOW_SETTINGS = """
import json
from django.conf import settings

shown = [name for name in dir(settings) if name.startswith(("SESSION_", "CSRF_", "SECURE_", "DEBUG"))]
print(json.dumps({name: getattr(settings, name) for name in shown}))
"""


@pytest.mark.parametrize(
    ("https", "base_path", "cookie"),
    [
        ("1", "", "__Host-tidemark-session"),
        ("1", "/tide", "__Secure-tidemark-session-tide"),
        ("0", "", "tidemark-session"),
    ],
)
def test_behind_tls_cookies_are_sent_over_https_only_and_no_other_host_sets_them(
    home: Path, https: str, base_path: str, cookie: str
) -> None:
    shown = subprocess.run(
        (sys.executable, "-c", SHOW_SETTINGS),
        cwd=ROOT,
        env={
            **os.environ,
            "TIDEMARK_HTTPS": https,
            "TIDEMARK_BASE_PATH": base_path,
            "DJANGO_SETTINGS_MODULE": "backend.config.settings",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    settings = json.loads(shown.stdout)
    assert settings["SESSION_COOKIE_NAME"] == cookie
    assert settings["SESSION_COOKIE_HTTPONLY"] is True
    assert settings["SESSION_COOKIE_SAMESITE"] == settings["CSRF_COOKIE_SAMESITE"] == "Lax"
    is_on = https == "1"
    assert settings["SESSION_COOKIE_SECURE"] is settings["CSRF_COOKIE_SECURE"] is is_on
    assert (settings["SECURE_HSTS_SECONDS"] >= 365 * 24 * 3600) is is_on
    assert settings["DEBUG"] is False


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_alone_may_speak_in_the_clear(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.delenv("TIDEMARK_HTTPS", raising=False)
    monkeypatch.delenv("TIDEMARK_INSECURE", raising=False)
    environment.check_exposure(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "tide.example", "0", "fe80::1", "127.0.0.1.evil"])
def test_an_address_that_others_reach_needs_tls_or_a_word(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.delenv("TIDEMARK_HTTPS", raising=False)
    monkeypatch.setenv("TIDEMARK_INSECURE", "0")
    with pytest.raises(EnvironmentProblem, match="TIDEMARK_HTTPS=1"):
        environment.check_exposure(host)
    monkeypatch.setenv("TIDEMARK_HTTPS", "1")
    environment.check_exposure(host)
    monkeypatch.delenv("TIDEMARK_HTTPS")
    monkeypatch.setenv("TIDEMARK_INSECURE", "1")
    environment.check_exposure(host)


def test_a_key_that_can_be_guessed_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_KEY", "secret")
    with pytest.raises(EnvironmentProblem, match="6 characters") as problem:
        environment.secret_key()
    assert "secret " not in str(problem.value)
    monkeypatch.setenv("TIDEMARK_SECRET_KEY", "0123456789abcdef" * 2)
    assert environment.secret_key() == "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("redis://127.0.0.1:6379/0", True),
        ("redis://localhost:6379/0", True),
        ("redis://:secret@redis.example:6379/0", True),
        ("rediss://me:secret@10.0.0.7:6379/0", True),
        ("unix:///run/redis.sock", True),
        ("redis://redis.example:6379/0", False),
        ("rediss://me@10.0.0.7:6379/0", False),
        ("redis://me:@10.0.0.7:6379/0", False),
    ],
)
def test_redis_on_another_machine_needs_a_password(
    monkeypatch: pytest.MonkeyPatch, url: str, *, is_allowed: bool
) -> None:
    monkeypatch.setenv("REDIS_URL", url)
    if is_allowed:
        assert environment.redis_url() == url
    else:
        with pytest.raises(EnvironmentProblem, match="without a password"):
            environment.redis_url()


def test_programs_see_nothing_of_the_clusters_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'db.sqlite3'}")
    monkeypatch.setenv("TIDEMARK_STORAGE_DIR", f"file://{tmp_path / 'storage'}")
    monkeypatch.setenv("TIDEMARK_CHECKPOINT_DIR", "s3://bucket/checkpoints")
    monkeypatch.setenv("TIDEMARK_SAVEPOINT_DIR", str(tmp_path / "savepoints"))
    monkeypatch.delenv("TIDEMARK_PLAN_NETWORK", raising=False)
    confinement = environment.confinement()
    assert set(confinement.hidden) == {str(home), *(str(tmp_path / n) for n in ("db.sqlite3", "storage", "savepoints"))}
    assert not confinement.has_network


def test_a_former_key_that_can_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_FORMER_SECRET_KEYS", f"{'a' * 32}, {'b' * 40}")
    assert environment.former_secret_keys() == ["a" * 32, "b" * 40]
    monkeypatch.setenv("TIDEMARK_FORMER_SECRET_KEYS", f"{'a' * 32},short")
    with pytest.raises(EnvironmentProblem, match="TIDEMARK_FORMER_SECRET_KEYS has 5 characters"):
        environment.former_secret_keys()


def test_a_cluster_without_a_key_of_its_own_has_the_secret_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["s" * 32, "t" * 32]
    assert environment.cluster_keys(given) == given
    monkeypatch.setenv("TIDEMARK_FORMER_CLUSTER_KEYS", "b" * 32)
    with pytest.raises(EnvironmentProblem, match="TIDEMARK_CLUSTER_KEY is not"):
        environment.cluster_keys(given)
    monkeypatch.setenv("TIDEMARK_CLUSTER_KEY", "a" * 32)
    assert environment.cluster_keys(given) == ["a" * 32, "b" * 32]
    monkeypatch.setenv("TIDEMARK_CLUSTER_KEY", "short")
    with pytest.raises(EnvironmentProblem, match="TIDEMARK_CLUSTER_KEY has 5 characters"):
        environment.cluster_keys(given)


def test_a_process_with_the_clusters_key_alone_needs_no_home_for_a_secret_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("TIDEMARK_SECRET_KEY", raising=False)
    with pytest.raises(EnvironmentProblem, match="cannot be written to"):
        environment.secret_key()
    monkeypatch.setenv("TIDEMARK_CLUSTER_KEY", "a" * 32)
    assert len(environment.secret_key()) >= environment.MIN_SECRET_CHARS
    assert environment.secret_key() != environment.secret_key()


def test_a_switch_that_cannot_be_read_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("", True), ("0", False), ("1", True)):
        monkeypatch.setenv("TIDEMARK_SUBMIT", text)
        assert environment.is_on("TIDEMARK_SUBMIT", default=True) is expected
    for text in ("false", "off", "no", "true", " 0"):
        monkeypatch.setenv("TIDEMARK_SUBMIT", text)
        with pytest.raises(EnvironmentProblem, match="must be 0 or 1"):
            environment.is_on("TIDEMARK_SUBMIT", default=True)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("", ""),
        ("/", ""),
        ("/tidemark", "/tidemark"),
        ("tidemark/", "/tidemark"),
        ("/a/tide-mark/", "/a/tide-mark"),
    ],
)
def test_a_base_path_begins_with_a_slash_and_ends_with_none(
    monkeypatch: pytest.MonkeyPatch, given: str, path: str
) -> None:
    monkeypatch.setenv("TIDEMARK_BASE_PATH", given)
    assert environment.base_path() == path


@pytest.mark.parametrize("given", ["/a b", "/a//b", "/..", "/a/../b", "/%2e", "/a;b", 'x"y', "https://a/b", "/ü"])
def test_a_base_path_that_does_not_stand_for_itself_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("TIDEMARK_BASE_PATH", given)
    with pytest.raises(EnvironmentProblem, match="must read"):
        environment.base_path()


def test_a_base_path_that_begins_as_the_servers_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_BASE_PATH", "/jobs/tidemark")
    with pytest.raises(EnvironmentProblem, match="own /jobs"):
        environment.base_path()

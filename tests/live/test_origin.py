"""Which pages may open WebSockets."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from backend.live.origin import is_same_origin


def allowed(origin: str | None, host: str | None) -> bool:
    given = ((b"origin", origin), (b"host", host))
    return is_same_origin([(name, value.encode()) for name, value in given if value is not None])


@pytest.fixture(autouse=True)
def hosts(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "tide.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://front.example"]


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://LOCALHOST:8000", "localhost:8000"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("https://tide.example", "tide.example"),
        ("https://tide.example", "tide.example:443"),
        ("https://tide.example:8443", "tide.example:8443"),
        ("http://localhost:8000", None),
        ("https://front.example", "inner:8000"),
    ],
)
def test_the_own_page_is_let_in(origin: str, host: str | None) -> None:
    assert allowed(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "localhost:8000"),
        ("null", "localhost:8000"),
        ("", "localhost:8000"),
        # another program of the same machine, on another port
        ("http://localhost:3000", "localhost:8000"),
        ("http://localhost", "localhost:8000"),
        ("https://localhost", "localhost:8000"),
        ("http://127.0.0.1:8000", "localhost:8000"),
        ("http://evil.example:8000", "localhost:8000"),
        ("http://localhost.evil.example:8000", "localhost:8000"),
        ("http://tide.example@evil.example", "tide.example"),
        ("https://front.example:444", "inner:8000"),
        ("http://localhost:99999", "localhost:8000"),
        ("http://localhost:x", "localhost:8000"),
        ("file://localhost", "localhost:8000"),
        ("http://evil.example", "evil.example"),
        ("http://[::1", "localhost:8000"),
    ],
)
def test_other_pages_are_refused(origin: str | None, host: str) -> None:
    assert not allowed(origin, host)

"""A request to start a job, as somebody sees it who waits for its answer."""

from __future__ import annotations

import io
import threading

import pytest

from runtime.client import submission
from runtime.client.rest import RestClient
from runtime.client.server import Server
from runtime.client.submission import Submission
from runtime.client.terminal import Terminal


class Noticed(io.StringIO):
    """Output that tells when there is some."""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def write(self, text: str) -> int:
        self.event.set()
        return super().write(text)


def test_whoever_waits_long_for_the_server_is_told_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "QUIET_S", 0.001)
    out = Noticed()
    # the server answers when something has been said
    client = RestClient(Server("http://127.0.0.1:1", "token"))
    waited = Submission(client, lambda job_id: out.event.wait(20), Terminal(out, io.StringIO()))
    waited.start()
    waited.wait()
    assert out.getvalue() == "The server runs the program up to its execute(), after those submitted earlier …\n"

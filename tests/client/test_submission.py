"""A request to start a job, as somebody sees it who waits for its answer."""

from __future__ import annotations

import io
import threading
from contextlib import suppress

import pytest

from runtime.client import submission
from runtime.client.rest import RequestRefusedError, RestClient
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


def test_what_it_waits_for_is_said_once_although_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "QUIET_S", 0.001)
    out, may_refuse = Noticed(), threading.Event()

    def refuse(job_id: str) -> None:
        assert may_refuse.wait(20)
        raise RequestRefusedError(400, "broken")

    def wait() -> None:
        with suppress(RequestRefusedError):
            waited.wait()

    client = RestClient(Server("http://127.0.0.1:1", "token"))
    waited = Submission(client, refuse, Terminal(out, io.StringIO()))
    waited.start()
    waiter, release = threading.Thread(target=wait), threading.Timer(0.2, may_refuse.set)
    waiter.start()
    assert out.event.wait(20)
    release.start()
    waited.give_up()
    waiter.join()
    said = [line.split(" ")[:2] for line in out.getvalue().splitlines()]
    assert said == [["The", "server"], ["Interrupted:", "job"], ["No", "job"]]

"""A request to start a job, as somebody sees it who waits for its answer."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.client import submission, watch
from runtime.client.rest import RequestRefusedError, RestClient, ServerUnreachableError
from runtime.client.server import Server
from runtime.client.submission import Submission
from runtime.client.terminal import Terminal
from runtime.testing import ManualClock
from tests.client.fake_cluster import FakeCluster


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


def test_an_upload_that_takes_long_is_told(
    tidemark: Callable[..., int], cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "QUIET_S", 0.001)
    out = Noticed()
    monkeypatch.setattr(sys, "stdout", out)
    # the server answers when something has been said
    cluster.before_upload = lambda: out.event.wait(20)
    (tmp_path / "job.py").write_text("pass")
    assert tidemark("run", "-d", "job.py") == 0
    assert out.getvalue().startswith("Uploading the program …\n")


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


def test_an_answer_that_is_lost_late_is_asked_for_again_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program was planned for a minute when the connection was cut: that is no reason to give up at once."""
    monkeypatch.setattr(submission, "LOOK_S", 0.001)
    monkeypatch.setattr(watch, "POLL_S", 0.001)
    errors, clock, losses = Noticed(), ManualClock(), [ServerUnreachableError("no server answers")]

    def send(job_id: str) -> None:
        if losses:
            clock.advance(60_000)
            raise losses.pop()
        assert errors.event.wait(20)

    waited = started(send, errors, clock)
    waited.wait()
    assert errors.getvalue() == "tidemark: no server answers; trying again for 30 s\n"


def test_whoever_gets_no_answer_is_told_which_job_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    def send(job_id: str) -> None:
        clock.advance(20_000)
        raise ServerUnreachableError("no server answers")

    monkeypatch.setattr(watch, "POLL_S", 0.001)
    waited = started(send, io.StringIO(), clock)
    with pytest.raises(ServerUnreachableError) as failure:
        waited.wait()
    job_id = waited.job_id
    may_appear = f"job {job_id} may still start or be running: `tidemark cancel {job_id[:8]}` ends it"
    assert str(failure.value) == f"no server answers; {may_appear}"


def test_a_server_that_lets_a_submission_time_out_is_not_asked_again() -> None:
    clock = ManualClock()
    sent: list[str] = []

    def send(job_id: str) -> None:
        sent.append(job_id)
        clock.advance(300_000)
        raise ServerUnreachableError("timed out")

    with pytest.raises(ServerUnreachableError):
        started(send, io.StringIO(), clock).wait()
    assert len(sent) == 1


def started(send: Callable[[str], object], errors: io.StringIO, clock: ManualClock) -> Submission:
    client = RestClient(Server("http://127.0.0.1:1", "token"))
    terminal = Terminal(io.StringIO(), errors, monotonic=lambda: clock.monotonic_ms() / 1000)
    waited = Submission(client, send, terminal)
    waited.start()
    return waited


def test_the_packages_of_a_requirements_file_are_sent(
    tidemark: Callable[..., int], cluster: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text("pass")
    (tmp_path / "wanted.txt").write_text("# maps\nGeopy >=2, <3\n\n")
    assert tidemark("run", "-d", "-pyreq", "wanted.txt", "job.py") == 0
    [sent] = [sent for _, path, sent in cluster.calls if path.endswith("/run")]
    assert sent["pythonRequirements"] == ["geopy<3,>=2"]


@pytest.mark.parametrize(("text", "told"), [("-e .", "wanted.txt: '-e .'"), (None, "wanted.txt: No such file")])
def test_a_requirements_file_that_cannot_be_read_is_named(
    tidemark: Callable[..., int],
    cluster: FakeCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    told: str,
) -> None:
    (tmp_path / "job.py").write_text("pass")
    if text is not None:
        (tmp_path / "wanted.txt").write_text(text)
    assert tidemark("run", "-d", "--py-requirements", "wanted.txt", "job.py") != 0
    assert told in capsys.readouterr().err and not cluster.calls

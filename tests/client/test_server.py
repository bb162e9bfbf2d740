"""The server that commands go to is found, and its token goes nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runtime.client.server import NoServerError, Server, find_server


def home(directory: Path, url: str = "http://127.0.0.1:8000\n", token: str = "secret\n") -> Path:
    directory.mkdir(parents=True)
    (directory / "url").write_text(url)
    (directory / "admin-token").write_text(token)
    return directory


def test_a_home_is_found_from_below(tmp_path: Path) -> None:
    home(tmp_path / ".tidemark")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_server({}, below) == Server("http://127.0.0.1:8000", "secret", tmp_path / ".tidemark")


def test_a_home_without_a_running_server_does_not_hide_one_above(tmp_path: Path) -> None:
    home(tmp_path / ".tidemark")
    (tmp_path / "a" / ".tidemark").mkdir(parents=True)
    assert find_server({}, tmp_path / "a").token == "secret"


def test_a_named_home_goes_first(tmp_path: Path) -> None:
    home(tmp_path / ".tidemark")
    home(tmp_path / "other", token="other")
    assert find_server({"TIDEMARK_HOME": "other"}, tmp_path).token == "other"
    with pytest.raises(NoServerError):
        find_server({"TIDEMARK_HOME": "missing"}, tmp_path)


def test_variables_go_before_the_home(tmp_path: Path) -> None:
    home(tmp_path / ".tidemark")
    given = {"TIDEMARK_URL": "https://cluster/", "TIDEMARK_TOKEN": "mine"}
    assert find_server(given, tmp_path) == Server("https://cluster", "mine")


def test_the_homes_token_is_not_sent_to_another_server(tmp_path: Path) -> None:
    home(tmp_path / ".tidemark")
    assert find_server({"TIDEMARK_URL": "http://127.0.0.1:8000/"}, tmp_path).token == "secret"
    with pytest.raises(NoServerError, match="set TIDEMARK_TOKEN"):
        find_server({"TIDEMARK_URL": "https://cluster"}, tmp_path)


@pytest.mark.parametrize("url", ["cluster:8000", "ftp://cluster", "http://"])
def test_an_address_must_be_one(tmp_path: Path, url: str) -> None:
    with pytest.raises(NoServerError, match="must read http"):
        find_server({"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "t"}, tmp_path)


def test_without_any_server_it_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(
        NoServerError, match="`make run`; if one runs with a TIDEMARK_HOME of its own, set the same here"
    ):
        find_server({}, tmp_path)


@pytest.mark.parametrize("named", [{}, {"TIDEMARK_HOME": ".tidemark"}])
def test_a_cluster_that_starts_is_told(tmp_path: Path, named: dict[str, str]) -> None:
    lock = home(tmp_path / ".tidemark", url="") / "lock"
    lock.write_text(f"{os.getpid()}\n")
    with pytest.raises(NoServerError, match=f"starting or ending .process {os.getpid()}.: try again in a moment"):
        find_server(named, tmp_path)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for left in (f"{ended.pid}\n", "", "no number"):
        lock.write_text(left)
        with pytest.raises(NoServerError, match="no cluster"):
            find_server(named, tmp_path)


def test_a_named_home_without_a_cluster_is_told(tmp_path: Path) -> None:
    home(tmp_path / ".tidemark")
    with pytest.raises(NoServerError, match=f"TIDEMARK_HOME, {tmp_path}/elsewhere: start it with `make run`, or name"):
        find_server({"TIDEMARK_HOME": "elsewhere"}, tmp_path)

"""Processes that claim, restore from and delete the same snapshot at once, on a real database: one of them may."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.snapshots import completed
from tests.cluster.stack import ROOT
from tests.connectors.postgres_fixture import running_postgres

ROUNDS = 25


class Submitter:
    """A process of `claiming_process`."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = (sys.executable, "-m", "tests.cluster.claiming_process")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)

    def ask(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def submitters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Submitter]]:
    """Three processes over one database."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
        "TIDEMARK_HOME": str(tmp_path),
        "TIDEMARK_ADMIN_TOKEN": "a-token-of-the-tests-that-nobody-guesses",
    }
    environment.pop("DATABASE_URL", None)
    prepare = (sys.executable, str(ROOT / "manage.py"), "prepare")

    def started() -> Iterator[list[Submitter]]:
        subprocess.run(prepare, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
        made = [Submitter(environment) for _ in range(3)]
        assert [each.answer() for each in made] == ["ready"] * 3
        yield made
        for each in made:
            each.end()

    if request.param == "sqlite":
        yield from started()
    else:
        with running_postgres() as environment["DATABASE_URL"]:
            yield from started()


@pytest.mark.timeout(240)
def test_of_those_that_saw_nobody_in_their_way_one_may_have_the_snapshot(
    submitters: list[Submitter], tmp_path: Path
) -> None:
    winners = set()
    for number in range(ROUNDS):
        location = completed(tmp_path / "savepoints", f"{number:032x}", 1).location
        # all look before any acts
        for each, mode in zip(submitters, ("claim", "claim", "no_claim"), strict=True):
            each.ask(f"check {location} {mode}")
        assert [each.answer() for each in submitters] == ["checked"] * 3
        restores = number % 2 == 1
        for index, each in enumerate(submitters):
            each.ask(f"submit job-{number}-{index}" if restores or index < 2 else f"dispose {location}")
        answers = [each.answer() for each in submitters]
        accepted = [index for index, answer in enumerate(answers) if answer == "accepted"]
        assert set(answers) <= {"accepted", "refused"}, answers
        assert len(accepted) == 1, f"round {number}: {answers}"
        winners.add(accepted[0])
    assert len(winners) > 1, "they did not race"

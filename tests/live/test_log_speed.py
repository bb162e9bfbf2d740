"""The search in the log of a job, over a gigabyte that the system has in memory."""

from __future__ import annotations

import time

import pytest

from tests.live.test_job_log import Job, of_text, record, texts

pytestmark = pytest.mark.slow

MAX_CPU_S = 1.0
"""Seconds of one CPU: what else the machine does is not counted."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Eight slots with 128 MiB each; the hits are at both ends of the last one, and its neighbours have none."""
    made = Job(tmp_path_factory.mktemp("logs"))
    lines = [
        f"Checkpoint {n} of the operator has been taken in {n % 97} ms, with {31 * n} bytes" for n in range(20_000)
    ]
    filler = "".join(record(1_000_000 + number, line) for number, line in enumerate(lines)).encode()
    for slot in range(8):
        made.write(filler * ((128 << 20) // len(filler) + 1), slot=slot)
    oldest, newest = record(500, "the first needle").encode(), record(2_000_000, "the last needle").encode()
    made.write(oldest + filler * ((128 << 20) // len(filler) + 1) + newest, slot=7)
    return made


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("query", ["first needle", "last needle"])
def test_the_first_hit_in_a_gigabyte_comes_with_the_first_request_within_a_second(
    job: Job, newest: bool, query: str
) -> None:
    assert sum(file.size for file in job.files) > 1 << 30
    job.search(of_text("warms the system's memory"))
    begun = time.process_time()
    # however long it takes on a busy machine
    found = job.search(of_text(query), newest=newest, limit=1, monotonic=lambda: 0.0)
    took = time.process_time() - begun
    assert texts(found.entries) == [f"the {query}"]
    assert took <= MAX_CPU_S

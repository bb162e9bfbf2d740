"""Two operators of one name: each has its metrics on the page, and a failure says which of them it was and where."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import PROGRAMS, Site
from tests.e2e.test_cli import tidemark
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

#: line of the second step in the program
PLACE = "two_steps.py:21"


def test_operators_of_one_name_are_told_apart_on_the_page_and_in_a_failure(site: Site, page: Page) -> None:
    job_id = site.run(PROGRAMS / "two_steps.py", parallelism=1)
    [vertex] = site.get(f"/jobs/{job_id}")["vertices"]
    path = f"/v1/jobs/{job_id}/vertices/{vertex['id']}/metrics?get=0.step.numRecordsIn,0.step_2.numRecordsIn"

    def counts() -> list[int]:
        return [int(entry["value"]) for entry in site.get(path)]

    wait_until(lambda: len(counts()) == 2 and counts()[1] > 0, 30, "the counts of both")
    first, second = counts()
    assert first == pytest.approx(2 * second, abs=1)
    site.open_job(page, job_id, f"?vertex={vertex['id']}&vtab=metrics")
    page.get_by_label("Filter metrics").fill("step")
    table = page.get_by_role("dialog").get_by_role("table", name="Metrics")
    expect(table.get_by_role("rowheader", name="step", exact=True)).to_have_count(2)

    site.wait_for_state(job_id, "FAILED")
    said = f"operator 'step' is defined at {PLACE}"
    [entry] = site.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
    assert entry["stacktrace"].endswith(said)
    assert said in tidemark(site, "info", job_id).stdout
    site.open_job(page, job_id, "?tab=exceptions")
    expect(page.get_by_label("Stack trace")).to_contain_text(re.compile(re.escape(said)))

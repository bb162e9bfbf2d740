"""Leader and standby as the page shows them, and a leader that is lost under a job that goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.stack import ROOT
from tests.e2e.site import DEMO, Site, job_state
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

#: until a process has loaded its modules and is in the list
START_MS = 60_000


@pytest.fixture
def standby(site: Site) -> Iterator[int]:
    """The pid of another JobManager beside the stack's own; that one leads again at the end."""
    settings = os.environ | {"TIDEMARK_HOME": str(site.stack.home), "DJANGO_SETTINGS_MODULE": "backend.config.settings"}
    with (site.stack.home / "logs" / "standby.log").open("wb") as log:
        command = (sys.executable, "manage.py", "jobmanager")
        process = subprocess.Popen(command, cwd=ROOT, env=settings, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)
        wait_until(lambda: is_led_again(site, process.pid), 60, "the stack's own leads")
        site.wait_for_demo()


def is_led_again(site: Site, gone: int) -> bool:
    """Whether another JobManager leads than that process, and was seen lately."""
    known = site.stack.client.jobmanagers()["jobmanagers"]
    leaders = [of["id"] for of in known if of["role"] == "LEADER" and of["is_alive"]]
    return bool(leaders) and not leaders[0].endswith(f":{gone}")


def row_of(page: Page, pid: int) -> Locator:
    of_process = re.compile(rf":{pid}(?!\d)")
    return page.get_by_role("table", name="Job Managers").get_by_role("row").filter(has_text=of_process)


def test_a_standby_takes_over_under_a_job_that_goes_on_and_the_page_shows_who_leads(
    site: Site, page: Page, standby: int
) -> None:
    job_id, leader = site.wait_for_demo(), site.stack.pid_of("jobmanager")
    before = site.stack.live(DEMO)
    page.goto(f"{site.url}/ui/jobmanagers")
    waits = row_of(page, standby)
    expect(waits).to_contain_text("STANDBY", timeout=START_MS)
    expect(waits).to_contain_text("takes over if the leader ends")
    leads = row_of(page, leader)
    expect(leads).to_contain_text("LEADER")
    epoch = int(leads.get_by_role("cell").nth(2).inner_text())

    os.kill(leader, signal.SIGKILL)
    expect(waits).to_contain_text("LEADER")
    expect(waits.get_by_role("cell").nth(2)).to_have_text(str(epoch + 1))
    # the supervisor starts it again, and there is a standby once more
    wait_until(lambda: site.stack.pid_of("jobmanager") != leader, 30, "another process stands by")
    expect(row_of(page, site.stack.pid_of("jobmanager"))).to_contain_text("STANDBY", timeout=START_MS)

    site.open_job(page, job_id)
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible()
    expect(job_state(page, "RUNNING")).to_be_visible()
    after = site.stack.live(DEMO)
    assert (after["id"], after["attempt"], after["restarts"]) == (job_id, before["attempt"], before["restarts"])

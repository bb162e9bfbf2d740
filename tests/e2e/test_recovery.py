"""Processes killed under an open page: it says so, and recovers by itself, without a reload."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.counted import COUNTED, check_exactly_once, total
from tests.e2e.site import Site, cell, fact, job_state, vertex_row
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

#: until a process is started again, has loaded its modules, and a job has been restarted
RECOVERY_MS = 90_000
SOURCE = "Source: Flights"


def open_demo(site: Site, page: Page) -> str:
    job_id = site.wait_for_demo()
    site.open_job(page, job_id)
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible()
    expect(job_state(page, "RUNNING")).to_be_visible()
    page.evaluate("window.wasNotReloaded = true")
    return job_id


def check_that_it_moves(page: Page) -> None:
    """Records are counted on, and it is still the page that was opened."""
    records = cell(vertex_row(page, SOURCE), 3)
    expect(records).to_have_text(re.compile(r"^[1-9]"), timeout=RECOVERY_MS)
    expect(records).not_to_have_text(records.inner_text())
    assert page.evaluate("window.wasNotReloaded")


def test_the_page_is_stale_while_the_web_process_is_away_and_recovers_by_itself(site: Site, page: Page) -> None:
    job_id = open_demo(site, page)
    before = site.stack.live("Flights live")
    os.kill(site.stack.pid_of("web"), signal.SIGKILL)
    banner = page.get_by_role("alert").filter(has_text="Stale since")
    expect(banner).to_be_visible()
    expect(page.get_by_role("status", name="Connection: Stale")).to_be_visible()
    expect(banner).to_have_count(0, timeout=RECOVERY_MS)
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible()
    check_that_it_moves(page)
    after = site.stack.live("Flights live")
    assert (after["id"], after["attempt"]) == (job_id, before["attempt"]), "the job has not noticed"


@pytest.mark.parametrize(("process", "reason"), [("jobmanager", "has sent no heartbeat"), ("redis", "Redis does not")])
def test_within_5_s_the_page_says_that_its_data_is_old_and_nothing_on_it_moves(
    site: Site, page: Page, process: str, reason: str
) -> None:
    open_demo(site, page)
    frozen = site.stack.pid_of(process)
    os.kill(frozen, signal.SIGSTOP)
    try:
        expect(page.get_by_role("status", name="Connection: Stale")).to_be_visible(timeout=5_500)
        banner = page.get_by_role("alert").filter(has_text="Stale since")
        expect(banner).to_contain_text(reason)
        expect(banner).to_contain_text("recovers by itself")
        # what counts up does so once a second: by now it is where the data is
        page.wait_for_timeout(1_200)
        duration = fact(page, "Duration").inner_text()
        rate = vertex_row(page, SOURCE).locator(".tm-live", has_text="/s").first
        assert float(rate.evaluate("(element) => getComputedStyle(element).opacity")) < 1
        page.wait_for_timeout(2_500)
        assert fact(page, "Duration").inner_text() == duration
    finally:
        os.kill(frozen, signal.SIGCONT)
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible(timeout=RECOVERY_MS)
    site.wait_for_demo()
    check_that_it_moves(page)


@pytest.mark.parametrize("way", ["killed", "frozen"])
def test_the_page_recovers_by_itself_when_redis_was_away(site: Site, page: Page, way: str) -> None:
    job_id = open_demo(site, page)
    before, redis = site.stack.live("Flights live"), site.stack.pid_of("redis")
    if way == "killed":
        os.kill(redis, signal.SIGKILL)
        wait_until(lambda: site.stack.pid_of("redis") != redis, 20, "another Redis")
    else:
        os.kill(redis, signal.SIGSTOP)
        try:
            # longer than a read of it may take
            page.wait_for_timeout(12_000)
        finally:
            os.kill(redis, signal.SIGCONT)
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible(timeout=RECOVERY_MS)
    check_that_it_moves(page)
    after = site.stack.live("Flights live")
    assert (after["id"], after["attempt"]) == (job_id, before["attempt"]), "the job has not noticed"


def test_a_killed_jobmanager_is_replaced_and_the_job_has_not_noticed(site: Site, page: Page) -> None:
    open_demo(site, page)
    before, leader = site.stack.live("Flights live"), site.stack.pid_of("jobmanager")
    os.kill(leader, signal.SIGKILL)
    wait_until(lambda: site.stack.pid_of("jobmanager") != leader, 30, "another jobmanager")
    expect(job_state(page, "RUNNING")).to_be_visible(timeout=RECOVERY_MS)
    site.wait_for_demo()
    check_that_it_moves(page)
    after = site.stack.live("Flights live")
    assert (after["attempt"], after["restarts"]) == (before["attempt"], before["restarts"]), after["exceptions"]
    expect(fact(page, "Restarts")).to_have_text(str(before["restarts"]))


def test_a_taskmanager_whose_jvm_was_killed_is_replaced_and_the_page_tells_of_it(site: Site, page: Page) -> None:
    open_demo(site, page)
    restarts = site.stack.live("Flights live")["restarts"]
    taskmanager = site.stack.pid_of("taskmanager")
    [jvm] = [process for process in psutil.Process(taskmanager).children() if "java" in process.name()]
    jvm.kill()
    # while there is no TaskManager the job does not run, and the page does not say that it does
    expect(job_state(page, "RUNNING")).to_have_count(0)
    wait_until(lambda: site.stack.pid_of("taskmanager") != taskmanager, 30, "another TaskManager")
    expect(job_state(page, "RUNNING")).to_be_visible(timeout=RECOVERY_MS)
    site.wait_for_demo()
    assert int(fact(page, "Restarts").inner_text()) > restarts
    check_that_it_moves(page)
    page.get_by_role("link", name="Task Managers", exact=True).click()
    rows = page.get_by_role("table", name="Task Managers").get_by_role("row").filter(has_text="REGISTERED")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"pid {site.stack.pid_of('taskmanager')}")
    page.get_by_role("link", name="Overview", exact=True).click()
    expect(page.get_by_role("group", name="Available Task Slots")).to_contain_text("4 of 6")


def test_what_is_asked_for_while_no_jobmanager_leads_is_done_by_the_next_one(site: Site, tmp_path: Path) -> None:
    output = tmp_path / "out"
    job_id = site.run(COUNTED, "--output", str(output), "--name", "numbers without a leader")
    site.wait_for_state(job_id, "RUNNING", 60)
    wait_until(lambda: total(output) > 0, 60, "something is committed")
    os.kill(site.stack.pid_of("jobmanager"), signal.SIGKILL)
    client, operations = site.stack.client, f"/api/v1/jobs/{job_id}/operations"
    asked = [client.trigger_savepoint(job_id, None, "CANONICAL")]
    asked.append(client.stop(job_id, None, "CANONICAL", drain=False))

    def are_done() -> bool:
        return all(operation["state"] == "COMPLETED" for operation in site.get(operations)["operations"])

    wait_until(are_done, 120, "both are done")
    for request_id in asked:
        assert client.operation(job_id, request_id)["result"].get("location")
    assert site.state(job_id) == "FINISHED"
    check_exactly_once(output)
    site.wait_for_demo()

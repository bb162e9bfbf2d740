"""Checkpoints on the page, and what is done with them: savepoint, stop, run again, rescale."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from runtime.client.rest import RestClient
from tests.e2e.counted import COUNTED, check_exactly_once, total
from tests.e2e.site import PROGRAMS, Site, choose_action, fact, job_state, notices, shown_job
from tests.e2e.test_cli import tidemark
from tests.e2e.test_jobs import Sent
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

#: a start or a restart takes Spark some seconds, on a busy machine many
START_MS = 60_000


def start(site: Site, output: Path, name: str, parallelism: int = 1, num_retained: int = 1) -> str:
    """A job that counts, once it has committed something."""
    configuration = {"execution.checkpointing.num-retained": str(num_retained)}
    arguments = ("--output", str(output), "--name", name)
    job_id = site.run(COUNTED, *arguments, parallelism=parallelism, configuration=configuration)
    site.wait_for_state(job_id, "RUNNING", 60)
    wait_until(lambda: total(output) > 0, 60, "something is committed")
    return job_id


def stop(site: Site, job_id: str) -> str:
    """Stop a job; the savepoint."""
    stopped = tidemark(site, "stop", job_id)
    assert stopped.returncode == 0, stopped.stderr
    assert site.state(job_id) == "FINISHED"
    return stopped.stdout.rpartition("Savepoint: ")[2].strip()


def open_checkpoints(site: Site, page: Page, job_id: str) -> Locator:
    """The history of a job's checkpoints."""
    site.open_job(page, job_id, "?tab=checkpoints")
    history = page.get_by_role("table", name="Checkpoints", exact=True)
    expect(history).to_be_visible(timeout=START_MS)
    return history


def test_the_demos_checkpoints_are_seen_as_they_come_down_to_the_subtasks(site: Site, page: Page) -> None:
    history = open_checkpoints(site, page, site.wait_for_demo())
    newest = history.get_by_role("button").first
    number = newest.inner_text().strip()
    # the demo takes one every five seconds; no reload
    expect(newest).not_to_have_text(number)
    row = history.get_by_role("row").filter(has=page.get_by_role("button", name=f"Checkpoint {number}, details"))
    expect(row).to_contain_text("COMPLETED")
    expect(row).to_contain_text("7 of 7 (100%)")
    row.get_by_role("button").click()
    vertices = page.get_by_role("table", name=f"Vertices of checkpoint {number}")
    expect(vertices.get_by_role("row")).to_have_count(5)
    vertices.get_by_role("button", name="By carrier and day").click()
    subtasks = page.get_by_role("table", name=f"Subtasks of checkpoint {number}")
    expect(subtasks.get_by_role("row")).to_have_count(3)
    expect(subtasks).to_contain_text(re.compile(r"\d+.ms"))
    expect(page.get_by_role("group", name="Failed")).to_contain_text("0")
    expect(page.get_by_role("region", name="Configuration")).to_contain_text("Exactly Once")
    page.get_by_role("link", name="Overview", exact=True).click()
    demo = page.get_by_role("table", name="Running Jobs").get_by_role("row").filter(has_text="Flights live")
    expect(demo).to_contain_text(re.compile(r"just now|\d+.s ago"))


def test_a_savepoint_is_taken_once_however_often_one_clicks(site: Site, page: Page) -> None:
    job_id = site.wait_for_demo()
    open_checkpoints(site, page, job_id)
    before, asked = site.get(f"/jobs/{job_id}/checkpoints"), Sent(page, "POST", "/savepoints$")
    choose_action(page, "Take a savepoint")
    dialog = page.get_by_role("dialog", name="Take a savepoint")
    dialog.get_by_label("Directory").fill("/etc")
    dialog.get_by_role("button", name="Take savepoint").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not below a directory that is allowed")
    dialog.get_by_label("Directory").fill("")
    dialog.get_by_role("button", name="Take savepoint").dblclick()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("Savepoint completed")).to_be_visible(timeout=START_MS)
    latest = site.get(f"/jobs/{job_id}/checkpoints")["latest"]["savepoint"]
    assert latest["id"] > max(entry["id"] for entry in before["history"])
    assert Path(latest["external_path"].removeprefix("file://"), "_metadata").is_file()
    assert len(asked.urls) == 2, "the refused one and the one that was taken"
    expect(page.get_by_role("region", name="Overview", exact=True)).to_contain_text(latest["external_path"])
    assert site.state(job_id) == "RUNNING"


def test_a_checkpoint_is_taken_on_demand(site: Site, page: Page) -> None:
    open_checkpoints(site, page, site.wait_for_demo())
    choose_action(page, "Take a checkpoint now")
    expect(page.get_by_text("Checkpoint completed")).to_be_visible(timeout=START_MS)
    expect(page.get_by_text(re.compile(r"^Number \d+$"))).to_be_visible()


def test_a_checkpoint_that_could_not_be_asked_for_is_no_silence(site: Site, page: Page) -> None:
    open_checkpoints(site, page, site.wait_for_demo())
    # the page goes on reading: only what it asks for is lost
    page.route("**/checkpoints", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    choose_action(page, "Take a checkpoint now")
    expect(page.get_by_text("No checkpoint was taken")).to_be_visible()


def take_savepoint(client: RestClient, job_id: str) -> str:
    """Ask for a savepoint and wait until its completion is told; the request's id."""
    request_id = client.trigger_savepoint(job_id, None, "CANONICAL")
    wait_until(lambda: client.operation(job_id, request_id)["state"] == "COMPLETED", 60, "the savepoint")
    return request_id


def test_who_is_told_of_a_savepoint_finds_it_among_the_jobs_checkpoints(site: Site) -> None:
    job_id, client = site.wait_for_demo(), site.stack.client
    for _ in range(5):
        request_id = take_savepoint(client, job_id)
        latest = site.get(f"/jobs/{job_id}/checkpoints")["latest"]["savepoint"]
        assert latest["external_path"] == client.operation(job_id, request_id)["result"]["location"]


def test_a_job_that_was_stopped_goes_on_from_its_savepoint_exactly(site: Site, page: Page, tmp_path: Path) -> None:
    job_id = start(site, tmp_path / "out", "stopped numbers")
    open_checkpoints(site, page, job_id)
    page.get_by_role("button", name="Stop with savepoint").click()
    dialog = page.get_by_role("dialog", name="Stop this job with a savepoint?")
    expect(dialog.get_by_label("Suspend")).to_be_checked()
    dialog.get_by_role("button", name="Stop job").click()
    expect(job_state(page, "FINISHED")).to_be_visible(timeout=START_MS)
    expect(page.get_by_text("The job has stopped")).to_be_visible(timeout=START_MS)
    first = check_exactly_once(tmp_path / "out")
    assert first > 0

    page.get_by_role("button", name="Run again").click()
    again = page.get_by_role("dialog", name="Run this job again")
    expect(again.get_by_role("radio").first).to_be_checked()
    again.get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Savepoint Path")).to_have_value(re.compile(r"^file:///.*/savepoint-"))
    expect(page.get_by_label("Program Arguments")).to_have_value(re.compile("--output"))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(job_state(page, "RUNNING")).to_be_visible(timeout=START_MS)
    second = shown_job(page)
    assert second != job_id
    page.get_by_role("tab", name="Checkpoints").click()
    expect(page.get_by_role("region", name=re.compile("^State restored from savepoint"))).to_contain_text("count")
    wait_until(lambda: total(tmp_path / "out") > first, 60, "it goes on")
    stop(site, second)
    assert check_exactly_once(tmp_path / "out") > first
    page.get_by_role("button", name="Run again").click()
    expect(again.get_by_role("radio", name=re.compile("^Snapshot that this job was started from"))).to_be_visible()


def test_a_stop_that_takes_long_is_seen_after_a_reload_and_is_not_requested_twice(site: Site, page: Page) -> None:
    job_id = site.run(PROGRAMS / "slow_sink.py", parallelism=1)
    site.wait_for_state(job_id, "RUNNING", 60)
    # until it is full of records that the sink has not taken yet
    wait_until(lambda: total_back_pressure(site, job_id) > 0, 60, "back pressure")
    site.open_job(page, job_id)
    page.get_by_role("button", name="Stop with savepoint").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop job").click()
    stopping = page.get_by_role("button", name="Stopping", exact=True)
    expect(stopping).to_be_disabled()
    page.reload()
    expect(stopping).to_be_disabled(timeout=START_MS)
    expect(notices(page).filter(has_text=re.compile("^Stopping the job: .*requested by"))).to_be_visible()
    # the result of what the earlier page requested is told, too
    expect(page.get_by_role("alert").filter(has_text="Stopping the job")).to_be_visible()
    site.cancel(job_id)
    expect(page.get_by_role("alert").filter(has_text="The job did not stop")).to_be_visible()
    expect(notices(page).filter(has_text="Stopping the job")).to_have_count(0)


def total_back_pressure(site: Site, job_id: str) -> float:
    """The shares of time, ms a second, that the vertices of a job wait for those behind them."""
    vertices = site.get(f"/api/v1/jobs/{job_id}/live")["vertices"]
    return sum(float(vertex["metrics"]["back_pressured"]) for vertex in vertices)


def test_a_job_is_drained(site: Site, page: Page, tmp_path: Path) -> None:
    job_id = start(site, tmp_path / "out", "drained numbers")
    site.open_job(page, job_id)
    page.get_by_role("button", name="Stop with savepoint").click()
    dialog = page.get_by_role("dialog", name="Stop this job with a savepoint?")
    dialog.get_by_label("Drain").check()
    dialog.get_by_role("button", name="Stop job").dblclick()
    expect(job_state(page, "FINISHED")).to_be_visible(timeout=START_MS)
    check_exactly_once(tmp_path / "out")
    [operation] = site.get(f"/api/v1/jobs/{job_id}/operations")["operations"]
    assert (operation["kind"], operation["parameters"]["drain"]) == ("stop", True)


def test_a_job_is_rescaled_and_goes_on_exactly(site: Site, page: Page, tmp_path: Path) -> None:
    output = tmp_path / "out"
    job_id = start(site, output, "rescaled numbers")
    site.open_job(page, job_id)
    for parallelism in (2, 1):
        choose_action(page, "Rescale")
        dialog = page.get_by_role("dialog", name="Rescale this job")
        dialog.get_by_label("Parallelism", exact=True).fill(str(parallelism))
        dialog.get_by_role("button", name="Rescale").click()
        expect(fact(page, "Parallelism")).to_have_text(str(parallelism), timeout=START_MS)
        expect(job_state(page, "RUNNING")).to_be_visible(timeout=START_MS)
        expect(page.get_by_text("The job runs with its new parallelism").last).to_be_visible(timeout=START_MS)
        before = total(output)
        wait_until(lambda before=before: total(output) > before, 60, "it goes on")  # type: ignore[misc]
    expect(fact(page, "Restarts")).to_have_text("0")
    page.get_by_role("tab", name="Checkpoints").click()
    restored = page.get_by_role("region", name=re.compile("^State restored from"))
    expect(restored).to_contain_text("from parallelism 2 to 1")
    # more than there are: refused, and the job goes on
    refused = tidemark(site, "rescale", job_id, 99)
    assert refused.returncode == 1
    assert re.search("would need 99 slots, but only [45] are available", refused.stderr)
    stop(site, job_id)
    check_exactly_once(output)


def test_the_bounds_of_a_jobs_parallelism_are_changed_where_they_are_shown(
    site: Site, page: Page, tmp_path: Path
) -> None:
    job_id = start(site, tmp_path / "out", "numbers with room")
    site.open_job(page, job_id)
    panel = page.get_by_role("region", name="Job requirements")
    lower, upper = (panel.get_by_label(re.compile(f"^{which} bound of")) for which in ("Lower", "Upper"))
    upper.first.fill("1000")
    expect(panel.get_by_role("alert")).to_contain_text("bounds are whole numbers from 1 to")
    expect(panel.get_by_role("button", name="Apply")).to_be_disabled()
    # more than the cluster has, so that it takes what there is
    for row in range(upper.count()):
        upper.nth(row).fill("99")
        expect(lower.nth(row)).to_have_value("1")
    panel.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("The job has its new requirements").last).to_be_visible(timeout=START_MS)
    expect(panel.get_by_role("status")).to_contain_text(re.compile(r"^[2-5] of 99 wanted slots"), timeout=START_MS)
    expect(fact(page, "Parallelism")).to_have_text(re.compile("^[2-5]$"))
    expect(panel.get_by_role("button", name="Apply")).to_have_count(0)
    expect(upper.first).to_have_value("99")
    stop(site, job_id)


def test_the_command_line_takes_savepoints_and_starts_from_them(site: Site, tmp_path: Path) -> None:
    output = tmp_path / "out"
    job_id = start(site, output, "numbers of the command line")
    taken = tidemark(site, "savepoint", job_id)
    assert taken.returncode == 0, taken.stderr
    location = taken.stdout.rpartition("Path: ")[2].strip()
    inspected = tidemark(site, "savepoint", "inspect", location)
    assert inspected.returncode == 0 and "count" in inspected.stdout
    listed = tidemark(site, "checkpoints", job_id)
    assert "SAVEPOINT" in listed.stdout and "CHECKPOINT" in listed.stdout
    assert tidemark(site, "checkpoint", job_id).returncode == 0
    savepoint = stop(site, job_id)
    first = check_exactly_once(output)
    arguments = ("--output", output, "--name", "numbers of the command line")
    started = tidemark(site, "run", "-d", "-s", savepoint, COUNTED, "--", *arguments)
    assert started.returncode == 0, started.stderr
    second = site.job_ids("numbers of the command line")[0]
    site.wait_for_state(second, "RUNNING", 60)
    wait_until(lambda: total(output) > first, 60, "it goes on")
    stop(site, second)
    check_exactly_once(output)
    refused = tidemark(site, "run", "-d", "-s", tmp_path, COUNTED, "--", *arguments)
    assert refused.returncode == 1 and "not below a directory that is allowed" in refused.stderr


def test_a_savepoint_of_another_job_is_refused_and_the_page_says_why(site: Site, page: Page, tmp_path: Path) -> None:
    job_id = start(site, tmp_path / "out", "numbers of another job")
    savepoint = stop(site, job_id)
    started = tidemark(site, "run", "-d", "-s", savepoint, COUNTED.parent / "unbounded.py")
    assert started.returncode == 0, started.stderr
    site.open_job(page, site.job_ids("endless numbers")[0])
    expect(job_state(page, "FAILED")).to_be_visible(timeout=START_MS)
    page.get_by_role("tab", name=re.compile("^Exceptions")).click()
    root = page.get_by_role("region", name="Root Exception")
    expect(root.get_by_text("has state of operators that the job does not have")).to_have_count(1)
    expect(root.get_by_label("Stack trace")).to_contain_text("dropped  count (uid count)")
    expect(root).to_contain_text("count (uid count)")


def test_a_job_is_started_from_the_savepoints_page_and_the_savepoint_disposed_of(
    site: Site, page: Page, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    job_id = start(site, output, "numbers that are restored")
    savepoint = stop(site, job_id)
    first = check_exactly_once(output)
    page.goto(f"{site.url}/ui/savepoints")
    row = page.get_by_role("table", name="Savepoints").get_by_role("row").filter(has_text=savepoint)
    row.get_by_role("button", name="Restore").click()
    expect(page.get_by_label("Savepoint Path")).to_have_value(savepoint)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(job_state(page, "RUNNING")).to_be_visible(timeout=START_MS)
    second = shown_job(page)
    wait_until(lambda: total(output) > first, 60, "it goes on")
    stop(site, second)
    check_exactly_once(output)

    page.get_by_role("link", name="Savepoints", exact=True).click()
    row.get_by_role("button", name="Dispose").click()
    dialog = page.get_by_role("dialog", name="Dispose of this savepoint?")
    dialog.get_by_role("button", name="Dispose").click()
    expect(row).to_have_count(0, timeout=START_MS)
    assert not Path(savepoint.removeprefix("file://")).exists()


def test_the_keys_of_a_checkpoint_are_seen_looked_up_and_exported(site: Site, page: Page, tmp_path: Path) -> None:
    # the newest one is replaced twice a second: as many stay as a look takes time
    job_id = start(site, tmp_path / "counts", "keys to look up", num_retained=60)
    site.open_job(page, job_id, "?tab=state")
    # counts are committed by completed checkpoints
    page.get_by_role("button", name="Show Some Keys").click()
    keys = page.get_by_role("region", name="Some Keys")
    expect(keys.get_by_role("listitem")).to_have_count(7, timeout=START_MS)
    expect(keys.get_by_role("status").first).to_have_text("All keys that have this state")
    with page.expect_download() as exported:
        keys.get_by_role("button", name="Export CSV").click()
    lines = exported.value.path().read_text("utf-8-sig").splitlines()
    assert lines[0] == "key,encoded_key"
    assert sorted(line.partition(",")[0] for line in lines[1:]) == [str(key) for key in range(7)]
    keys.get_by_role("button", name="3", exact=True).click()
    found = page.get_by_role("region", name=re.compile(r" of 3$"))
    expect(found).to_contain_text(re.compile(r"As of .*, checkpoint \d+"), timeout=START_MS)
    site.cancel(job_id)

"""The demo's page: a live graph, moving numbers, a vertex with its subtasks, and links that survive a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import DEMO, Site, cell, fact, job_state, vertex_row
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SOURCE = "Source: Flights"
VERTICES = (SOURCE, "By airport and hour", "By carrier and day", "Sink: Delays")
TIMES = ("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")


@pytest.mark.smoke
def test_the_demo_is_seen_running_with_its_whole_graph(site: Site, page: Page) -> None:
    job_id = site.wait_for_demo()
    page.goto(f"{site.url}/ui/")
    page.get_by_role("link", name=DEMO).click()
    expect(page).to_have_url(f"{site.url}/ui/jobs/{job_id}")
    expect(page).to_have_title(f"{DEMO} · Tidemark")
    expect(job_state(page, "RUNNING")).to_be_visible()
    graph = page.get_by_role("group", name="Job graph")
    for name in VERTICES:
        expect(graph.get_by_role("button", name=name)).to_be_visible()
        expect(cell(vertex_row(page, name), 1)).to_have_text("RUNNING")
    expect(graph.get_by_text("HASH")).to_have_count(2)
    expect(graph.get_by_role("img", name=re.compile("^Edge from"))).to_have_count(4)


@pytest.mark.smoke
def test_rates_and_counts_move_on_the_page_by_themselves(site: Site, page: Page) -> None:
    site.open_job(page, site.wait_for_demo())
    for column in (3, 4):
        counts = cell(vertex_row(page, SOURCE), column)
        expect(counts).to_have_text(re.compile(r"^[1-9][\d,]*[\d.]+( k)?/s$"))
        rate = counts.locator("div")
        first = rate.inner_text()
        expect(rate).not_to_have_text(first)
    watermark = cell(vertex_row(page, VERTICES[1]), 9)
    expect(watermark).to_have_text(re.compile(r"^201[34]-\d\d-\d\d "))
    expect(watermark).not_to_have_text(watermark.inner_text())


def test_two_readings_of_the_records_in_two_seconds_apart_differ(site: Site, page: Page) -> None:
    job_id = site.wait_for_demo()
    source = site.get(f"/jobs/{job_id}")["vertices"][0]["id"]

    def reading() -> str:
        path = f"/jobs/{job_id}/vertices/{source}/subtasks/metrics?get=numRecordsIn&agg=sum"
        return str(site.get(path)[0]["sum"])

    before = reading()
    page.wait_for_timeout(2_000)
    assert reading() != before


def test_busy_idle_and_back_pressured_time_make_up_every_second_of_every_task(site: Site) -> None:
    job_id = site.wait_for_demo()

    def sums() -> list[float]:
        found = []
        for vertex in site.get(f"/jobs/{job_id}")["vertices"]:
            for index in range(vertex["parallelism"]):
                path = f"/jobs/{job_id}/vertices/{vertex['id']}/subtasks/{index}/metrics?get={','.join(TIMES)}"
                found.append(sum(float(metric["value"]) for metric in site.get(path)))
        return found

    # in its first second a task has not been measured yet
    wait_until(lambda: all(950 <= each <= 1050 for each in sums()), 10, "the times add up")
    for _ in range(3):
        measured = sums()
        assert len(measured) == 7
        assert all(950 <= each <= 1050 for each in measured), measured


def test_a_vertex_opens_with_its_subtasks_and_its_link_survives_a_reload(site: Site, page: Page) -> None:
    site.open_job(page, site.wait_for_demo())
    page.get_by_role("group", name="Job graph").get_by_role("button", name=VERTICES[1]).click()
    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_text("Slot Sharing Group")).to_be_visible()
    drawer.get_by_role("tab", name="Subtasks").click()
    rows = drawer.get_by_role("table", name="Subtasks").get_by_role("row")
    expect(rows).to_have_count(3)
    for index in (0, 1):
        expect(rows.nth(index + 1)).to_contain_text(re.compile(r"RUNNING.*pid \d+ · attempt 0"))
    expect(page).to_have_url(re.compile("vertex=[0-9a-f]{32}&vtab=subtasks"))
    page.reload()
    expect(rows).to_have_count(3)
    for tab in ("Watermarks", "Backpressure", "Charts", "Metrics", "Accumulators"):
        drawer.get_by_role("tab", name=tab).click()
        expect(drawer.get_by_role("tabpanel", name=tab)).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(page).not_to_have_url(re.compile("vertex="))


def test_what_the_demo_prints_is_followed_live(site: Site, page: Page) -> None:
    site.open_job(page, site.wait_for_demo(), "?tab=logs")
    lines = page.get_by_role("log")
    # of all slots at once, and of one
    expect(lines.get_by_text("flights, mean delay").first).to_be_visible()
    page.get_by_role("combobox", name="Log file").click()
    page.get_by_role("option", name="output").first.click()
    expect(lines.get_by_text("flights, mean delay").first).to_be_visible()
    foot = page.get_by_text(re.compile(r"^Lines [\d,]+ to [\d,]+ of "))
    expect(foot).not_to_have_text(foot.inner_text())
    page.get_by_role("textbox", name="Search in the log").fill("JFK")
    expect(page.get_by_text(re.compile(r"^1 of [\d,]+\+?$"))).to_be_visible()


def test_the_head_of_the_job_counts_its_time_and_the_configuration_is_told(site: Site, page: Page) -> None:
    site.open_job(page, site.wait_for_demo())
    duration = fact(page, "Duration")
    expect(duration).not_to_have_text(duration.inner_text())
    page.get_by_role("tab", name="Configuration").click()
    expect(page.get_by_role("cell", name="restart-strategy.type")).to_be_visible()
    expect(page.get_by_role("cell", name="exponential-delay", exact=True)).to_be_visible()

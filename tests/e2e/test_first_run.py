"""What a newcomer meets: ways to begin, templates with their stories, and a tour that never stands in the way."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import DEMO, Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_the_job_of_the_first_run_is_a_pipeline_of_the_users(site: Site, page: Page) -> None:
    job_id = site.wait_for_demo()
    page.goto(f"{site.url}/ui/pipelines")
    page.get_by_role("link", name=DEMO, exact=True).click()
    expect(page.get_by_text("By airport and hour", exact=True).first).to_be_visible()
    of_job = page.request.get(f"{site.url}/api/v1/pipelines/jobs/{job_id}").json()["drawn"]
    assert page.url.endswith(f"/pipelines/{of_job['pipeline']}/edit") and of_job["version"] == 1


def test_ways_to_begin_lead_on_and_can_be_put_away(site: Site, page: Page) -> None:
    site.wait_for_demo()
    page.goto(f"{site.url}/ui/")
    ways = page.get_by_role("region", name="Get started")
    ways.get_by_role("link", name="See it live").click()
    expect(page).to_have_url(re.compile(r"/ui/jobs/[0-9a-f]{32}$"))
    page.go_back()
    ways.get_by_role("button", name="Hide “Get started”").click()
    expect(ways).to_have_count(0)
    page.reload()
    expect(page.get_by_role("table", name="Running Jobs")).to_be_visible()
    expect(ways).to_have_count(0)


def test_a_pipeline_is_made_from_a_template(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/pipelines")
    page.get_by_role("button", name="New from template").click()
    dialog = page.get_by_role("dialog", name="New from a template")
    expect(dialog.get_by_role("listitem")).to_have_count(13)
    card = dialog.get_by_role("button", name="Sensor alarms")
    expect(card).to_have_accessible_description(re.compile("somebody changes the limits"))
    card.click()
    expect(page).to_have_url(re.compile(r"/pipelines/[0-9a-f]{32}/edit$"))
    expect(page.get_by_text("Alarms a minute", exact=True).first).to_be_visible()


def test_the_tour_goes_over_the_real_pages_by_keyboard_and_goes_on_where_it_was_left(site: Site, page: Page) -> None:
    job_id = site.wait_for_demo()
    page.goto(f"{site.url}/ui/")
    page.get_by_role("button", name="User admin").click()
    page.get_by_role("menuitem", name="Take the tour").click()
    card = page.get_by_role("dialog", name="What runs")
    expect(card.get_by_role("button", name="Next")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="A job as it flows")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/ui/jobs/"))
    # the page works on below the tour
    page.get_by_role("tab", name="Configuration").click()
    expect(page.get_by_role("cell", name="restart-strategy.type")).to_be_visible()
    # Escape leaves it; the menu goes on with it, after a reload too
    page.get_by_role("dialog", name="A job as it flows").get_by_role("button", name="Next").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Step 2 of 6")).to_have_count(0)
    page.reload()
    page.get_by_role("button", name="User admin").click()
    page.get_by_role("menuitem", name="Continue the tour (step 2)").click()
    for title in ("What lies behind it", "Draw a job", "Nodes", "Parameters"):
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("dialog", name=title)).to_be_visible()
    expect(page).to_have_url(re.compile(r"/pipelines/[0-9a-f]{32}/edit$"))
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert site.state(job_id) == "RUNNING"

"""Logging in by the link that `make run` prints, and what those see who have not."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.e2e.site import DEMO, Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.smoke
def test_the_link_logs_in_and_leads_to_the_overview(site: Site, page: Page) -> None:
    page.goto(site.url)
    expect(page).to_have_url(f"{site.url}/ui/")
    expect(page.get_by_role("button", name="User admin")).to_be_visible()
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible()
    expect(page.get_by_role("link", name=DEMO)).to_be_visible()


def test_the_link_is_refused_when_it_is_used_again(site: Site, browser: Browser, login: StorageState) -> None:
    context = browser.new_context()
    page = context.new_page()
    assert site.stack.login_link is not None
    page.goto(site.stack.login_link)
    expect(page.get_by_role("alert")).to_contain_text("has been used or has expired")
    # the administrator has a token and no password
    expect(page.get_by_role("radio", name="API token")).to_be_checked()
    expect(page.get_by_role("alert")).to_contain_text("prints a new link")
    expect(page.get_by_role("button", name="Log in", exact=True)).to_be_visible()
    page.goto(f"{site.url}/ui/taskmanagers")
    expect(page).to_have_url(f"{site.url}/ui/login?next=%2Ftaskmanagers")
    context.close()


def test_a_token_logs_in_to_the_page_that_was_asked_for_and_out_again(site: Site, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/ui/taskmanagers")
    page.get_by_text("API token", exact=True).first.click()
    field = page.get_by_role("textbox", name="API token")
    field.fill("wrong")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("The token is wrong.")
    field.fill((site.stack.home / "admin-token").read_text())
    field.press("Enter")
    expect(page.get_by_role("heading", name="Task Managers", level=1)).to_be_visible()
    page.get_by_role("button", name="User admin").click()
    page.get_by_role("menuitem", name="Log out").click()
    expect(page.get_by_role("button", name="Log in", exact=True)).to_be_visible()
    assert page.request.get(f"{site.url}/api/v1/cluster").status in (401, 403)
    context.close()

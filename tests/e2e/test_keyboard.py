"""Without a mouse: a job cancelled, or rather not, by keyboard; the theme; the way past the navigation."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def tab_to(page: Page, name: str) -> None:
    """Press Tab until an element whose accessible name begins so has the focus."""
    passed = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => { const e = document.activeElement; return e.getAttribute('aria-label') ?? e.textContent }"
        )
        if focused.strip().startswith(name):
            return
        passed.append(focused.strip()[:30])
    raise AssertionError(f"Tab does not lead to {name!r}, but to {passed}")


def test_cancelling_is_reached_by_tab_and_left_by_escape(site: Site, page: Page) -> None:
    job_id = site.wait_for_demo()
    site.open_job(page, job_id)
    actions = page.get_by_role("button", name="Actions", exact=True)
    expect(actions).to_be_enabled()
    tab_to(page, "Actions")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Take a savepoint")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Take a savepoint")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("menuitem", name="Cancel job")).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Cancel this job?")
    expect(dialog.get_by_role("button", name="Keep running")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(actions).to_be_focused()
    assert site.state(job_id) == "RUNNING"


def test_a_dialog_of_the_actions_menu_gives_the_focus_back_to_its_button(site: Site, page: Page) -> None:
    site.open_job(page, site.wait_for_demo())
    actions = page.get_by_role("button", name="Actions")
    for item, title in (("Take a savepoint", "Take a savepoint"), ("Rescale", "Rescale this job")):
        expect(actions).to_be_enabled()
        actions.click()
        page.get_by_role("menuitem", name=item).click()
        dialog = page.get_by_role("dialog", name=title)
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(actions).to_be_focused()


def test_back_goes_to_the_tab_before_and_a_reload_keeps_the_sorting(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/")
    job_id = site.wait_for_demo()
    site.open_job(page, job_id)
    for tab in ("Checkpoints", "Logs"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
    for tab in ("Checkpoints", "Overview"):
        page.go_back()
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
    page.go_back()
    column = page.get_by_role("table", name="Running Jobs").get_by_role("columnheader", name="Tasks")
    column.get_by_role("button").click()
    expect(column).to_have_attribute("aria-sort", "ascending")
    page.reload()
    expect(column).to_have_attribute("aria-sort", "ascending")


def test_a_vertex_is_opened_and_closed_by_keyboard(site: Site, page: Page) -> None:
    site.open_job(page, site.wait_for_demo())
    expect(page.get_by_role("group", name="Job graph").get_by_role("button", name="By carrier and day")).to_be_visible()
    tab_to(page, "By carrier and day")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_content_is_one_key_away(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_the_theme_is_switched_and_kept(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/")
    for theme in ("dark", "light"):
        page.get_by_role("button", name="Theme:").click()
        page.get_by_role("menuitemradio", name=theme.capitalize()).click()
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", theme)
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", theme)
        expect(page.get_by_role("button", name=f"Theme: {theme}")).to_be_visible()

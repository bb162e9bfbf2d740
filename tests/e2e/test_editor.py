"""The editor: a pipeline from an empty canvas, quick fixes, undo, killed tabs, two editors at once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from difflib import ndiff
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Error, Locator, Page, expect

from tests.e2e.site import Site
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def new_pipeline(site: Site, page: Page) -> str:
    """Make an empty pipeline and open it; returns its id."""
    page.goto(f"{site.url}/ui/pipelines")
    page.get_by_role("button", name="New pipeline", exact=True).click()
    expect(page.get_by_text("Begin with a source")).to_be_visible()
    return page.url.rsplit("/", 2)[-2]


def add(page: Page, search: str, name: str) -> None:
    """Add a node behind the selected one, by keyboard."""
    page.keyboard.press("n")
    field = page.get_by_role("combobox", name="Search nodes to add")
    expect(field).to_be_focused()
    field.fill(search)
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Name of the node")).to_have_value(name)


def field(page: Page, pointer: str) -> Locator:
    return page.locator(f'input[data-field="{pointer}"]')


def problems(page: Page) -> Locator:
    return page.get_by_role("list", name="Problems")


def draft(site: Site, page: Page, pipeline: str) -> Any:
    """The user's draft as the server has it; None: there is none."""
    answer = page.request.get(f"{site.url}/api/v1/pipelines/{pipeline}/draft")
    return answer.json()["document"] if answer.ok else None


def names(document: Any) -> set[str]:
    return set() if document is None else {node["name"] for node in document["nodes"].values()}


@pytest.mark.smoke
def test_a_pipeline_is_drawn_saved_and_undone_by_keyboard(site: Site, page: Page) -> None:
    pipeline = new_pipeline(site, page)
    add(page, "nexmark", "Nexmark auction")
    add(page, "filter", "Filter")
    add(page, "print", "Print")
    expect(problems(page).get_by_role("button", name="Filter")).to_be_visible()
    problems(page).get_by_role("button", name="Filter").click()
    expect(page.locator(".cm-content").first).to_be_focused()
    page.keyboard.type("price > 100")
    expect(page.get_by_text("No problems.")).to_be_visible()
    page.get_by_role("tab", name="Python").click()
    expect(page.get_by_text('.where("price > 100")')).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Version 2", exact=True)).to_be_visible()
    saved = site.get(f"/api/v1/pipelines/{pipeline}/versions/2")["document"]
    assert names(saved) == {"Nexmark auction", "Filter", "Print"}
    assert len(saved["edges"]) == 2
    page.locator("[data-canvas]").focus()
    for _ in range(10):
        page.keyboard.press("Control+z")
    expect(page.get_by_text("Begin with a source")).to_be_visible()
    for _ in range(10):
        page.keyboard.press("Control+Shift+z")
    # the same document again, and so nothing to save
    expect(page.get_by_text("Version 2", exact=True)).to_be_visible()


def test_a_quick_fix_gives_a_stream_its_watermarks(site: Site, page: Page) -> None:
    new_pipeline(site, page)
    page.locator("[data-canvas]").focus()
    rows = [{"item": "pen", "at": "2024-01-01T10:00:00"}, {"item": "ink", "at": "2024-01-01T10:00:01"}]
    page.evaluate(
        """(text) => {
            const data = new DataTransfer()
            data.setData('text/plain', text)
            window.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data}))
        }""",
        json.dumps(rows),
    )
    expect(page.get_by_role("textbox", name="Name of the node")).to_have_value("Pasted rows")
    page.locator("[data-canvas]").focus()
    add(page, "window aggregate", "Window aggregate")
    page.get_by_role("tab", name="Docs").click()
    page.get_by_role("button", name="Use this example").first.click()
    page.get_by_role("tab", name="Form").click()
    keys = page.get_by_placeholder("columns").or_(page.locator('input[data-field="/params/keys"]')).first
    keys.press("Backspace")
    keys.fill("item")
    keys.press("Enter")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Remove 2").click()
    page.locator("[data-canvas]").focus()
    add(page, "print", "Print")
    fix = problems(page).get_by_role("button", name="Take the event time of Pasted rows from at")
    fix.click()
    expect(page.get_by_text("No problems.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(fix).to_be_visible()


def test_a_killed_tab_loses_nothing(site: Site, context: BrowserContext, page: Page) -> None:
    pipeline = new_pipeline(site, page)
    page.route("**/draft", lambda route: route.abort() if route.request.method == "PUT" else route.continue_())
    add(page, "nexmark", "Nexmark auction")
    add(page, "filter", "Filter")
    kept = page.evaluate(
        """(id) => {
            const keys = Object.keys(localStorage).filter((key) => key.startsWith(`tidemark.draft.${id}.`))
            return keys.length === 1 ? JSON.parse(localStorage.getItem(keys[0])).document : null
        }""",
        pipeline,
    )
    url = page.url
    page.close()
    again = context.new_page()
    again.goto(url)
    expect(again.get_by_text("Draft of version 1", exact=False)).to_be_visible()
    again.get_by_role("button", name="Outline").click()
    expect(again.get_by_role("treeitem")).to_have_count(2)
    wait_until(lambda: names(draft(site, again, pipeline)) == names(kept), 20, "the draft is on the server")
    assert draft(site, again, pipeline)["nodes"].keys() == kept["nodes"].keys()
    again.close()


def seen(page: Page) -> tuple[list[str], str]:
    """Return the nodes on the canvas, and what the clipboard gets of them all: nodes, edges, notes and groups."""
    page.locator("[data-canvas]").focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    nodes = sorted(page.locator("[data-node]").evaluate_all("(boxes) => boxes.map((box) => box.dataset.node)"))
    copied = json.loads(page.evaluate("() => navigator.clipboard.readText()"))
    # the order of edges, notes and groups says nothing
    for part in filter(lambda part: isinstance(part, list), copied.values()):
        part.sort(key=lambda each: json.dumps(each, sort_keys=True))
    return nodes, json.dumps(copied, sort_keys=True, indent=1)


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def edit_somehow(page: Page, draw: random.Random) -> None:
    """Edit the pipeline as users do; now and then nothing changes."""
    # all nodes are within reach of the pointer
    page.get_by_role("button", name="Fit View").click()
    page.locator("[data-canvas]").focus()
    ids = page.locator("[data-node]").evaluate_all("(boxes) => boxes.map((box) => box.dataset.node)")
    kinds = ["add", "add", "note", "undo", "delete", "field", "field", "name"]
    match draw.choice(kinds if len(ids) > 2 else ["add"]):
        case "add":
            page.keyboard.press("n")
            page.get_by_role("combobox", name="Search nodes to add").fill(draw.choice(["filter", "print"]))
            page.keyboard.press("Enter")
            is_new = "(box) => !known.includes(box.dataset.node)"
            boxes = "[...document.querySelectorAll('[data-node]')]"
            page.wait_for_function(f"(known) => {boxes}.some({is_new})", arg=ids)
        case "note":
            page.keyboard.press("t")
        case "undo":
            page.keyboard.press("Control+z")
        case "field":
            page.locator(f'[data-node="{draw.choice(sorted(ids))}"]').click()
            typed = page.locator("[data-inspector]").locator(FIELDS).first
            typed.click()
            typed.press_sequentially(f"c{draw.randrange(100)}")
        case "name":
            page.locator(f'[data-node="{draw.choice(sorted(ids))}"]').click()
            page.keyboard.press("F2")
            page.keyboard.type(f"Node {draw.randrange(10_000)}")
            page.keyboard.press("Enter")
        case _:
            removed = page.locator(f'[data-node="{draw.choice(sorted(ids))}"]')
            removed.click()
            page.keyboard.press("Delete")
            expect(removed).to_have_count(0)


FIELDS = '[data-field="/params/label"], [data-field="/params/condition"] .cm-content'


@pytest.mark.timeout(900)
def test_whenever_a_tab_is_killed_its_successor_has_the_same_document(
    site: Site, context: BrowserContext, page: Page
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    new_pipeline(site, page)
    url, draw = page.url, random.Random(6)
    for kill in range(50):
        for _ in range(draw.randint(1, 2)):
            edit_somehow(page, draw)
        before = seen(page)
        # before the draft is sent, in the midst of it, and after
        page.wait_for_timeout(draw.random() * 1_600)
        with suppress(Error):
            page.goto("chrome://crash")
        page.close()
        page = context.new_page()
        page.goto(url)
        expect(page.locator("[data-node]")).to_have_count(len(before[0]))
        after = seen(page)
        difference = "\n".join(changed_lines(before[1], after[1]))
        assert after == before, f"kill {kill}: {difference}"
    page.close()


def edited(page: Page, item: str, change: Callable[[], None]) -> None:
    page.get_by_role("button", name="Outline").click()
    page.get_by_role("treeitem").get_by_text(item, exact=True).first.click()
    change()
    page.locator("[data-canvas]").focus()


def test_two_tabs_merge_and_one_field_is_asked_about(site: Site, context: BrowserContext, page: Page) -> None:
    pipeline = new_pipeline(site, page)
    add(page, "nexmark", "Nexmark auction")
    add(page, "print", "Print")
    wait_until(lambda: len(names(draft(site, page, pipeline))) == 2, 20, "the draft is on the server")
    other = context.new_page()
    other.goto(page.url)
    edited(other, "Print", lambda: field(other, "/params/label").fill("theirs"))
    wait_until(lambda: "theirs" in json.dumps(draft(site, page, pipeline)), 20, "the other tab has written")
    edited(page, "Nexmark auction", lambda: field(page, "/params/seed").fill("7"))
    wait_until(lambda: '"seed": 7' in json.dumps(draft(site, page, pipeline)), 20, "both are on the server")
    assert "theirs" in json.dumps(draft(site, page, pipeline))
    edited(other, "Nexmark auction", lambda: field(other, "/params/seed").fill("9"))
    asked = other.get_by_role("region", name="Changed by both")
    expect(asked).to_contain_text("Nexmark auction: seed")
    asked.get_by_role("button", name="Take this").last.click()
    expect(asked).to_have_count(0)
    wait_until(lambda: '"seed": 7' in json.dumps(draft(site, page, pipeline)), 20, "their value holds")
    other.close()

"""A pipeline from an empty canvas to a running job without a mouse: only keys are pressed, as a person would."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.cluster.stack import ROOT
from tests.e2e.site import Site, cell, vertex_row
from tests.e2e.test_deploy import SLOW_MS, rows

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

FOCUSED = """() => {
    const e = document.activeElement
    const label = e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent ?? ''
    return [label.trim(), e.closest('[data-field]')?.dataset.field ?? '']
}"""


def focused(page: Page) -> tuple[str, str]:
    """The name of what has the focus, and the field of a form that it belongs to."""
    name, field = page.evaluate(FOCUSED)
    return name, field


def go_to(page: Page, name: str = "", field: str = "", key: str = "Tab", most: int = 60) -> None:
    """Press a key until something of that name, or of that field, has the focus."""
    passed = []
    for _ in range(most):
        page.keyboard.press(key)
        found = focused(page)
        if (name and found[0].startswith(name)) or (field and found[1] == field):
            return
        passed.append(found)
    raise AssertionError(f"{key} does not lead to {name or field!r}, but to {passed}")


def add(page: Page, search: str, name: str) -> None:
    page.keyboard.press("n")
    expect(page.get_by_role("combobox", name="Search nodes to add")).to_be_focused()
    page.keyboard.type(search)
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Name of the node")).to_have_value(name)


def to_the_form(page: Page) -> None:
    page.keyboard.press("Enter")
    # the code of forms is loaded with the first one
    expect(page.locator("[data-inspector] :focus")).to_have_count(1)


def use_example(page: Page) -> None:
    """Take the first example of the documentation of the node that is selected."""
    to_the_form(page)
    go_to(page, "Form", key="Shift+Tab")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    go_to(page, "Use this example")
    page.keyboard.press("Enter")
    go_to(page, "Docs", key="Shift+Tab")
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Form")).to_have_attribute("aria-selected", "true")


def fill(page: Page, field: str, text: str) -> None:
    """Go to a field of the form, and type in place of what is there."""
    go_to(page, field=field)
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def back_to_the_canvas(page: Page) -> None:
    page.keyboard.press("Escape")
    expect(page.locator("[data-canvas]")).to_be_focused()


def test_a_pipeline_is_drawn_mended_previewed_and_deployed_by_keyboard_alone(
    site: Site, page: Page, tmp_path: Path
) -> None:
    output, alone = tmp_path / "deployed", tmp_path / "alone"
    page.goto(f"{site.url}/ui/pipelines")
    expect(page.get_by_role("button", name="New pipeline", exact=True)).to_be_visible()
    go_to(page, "New pipeline")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Begin with a source")).to_be_visible()
    pipeline = page.url.rsplit("/", 2)[-2]

    add(page, "generator", "Generator")
    use_example(page)
    fill(page, "/params/count", "3000")
    fill(page, "/params/rows_per_second", "300")
    back_to_the_canvas(page)
    add(page, "window aggregate", "Window aggregate")
    use_example(page)
    go_to(page, field="/params/keys")
    page.keyboard.press("Backspace")
    page.keyboard.type("amount")
    page.keyboard.press("Enter")
    fill(page, "/params/window/size", "1 s")
    go_to(page, "Remove 2")
    page.keyboard.press("Enter")
    back_to_the_canvas(page)
    add(page, "appear whole", "Files")
    to_the_form(page)
    go_to(page, "Form", key="Shift+Tab")
    fill(page, "/params/path", str(output))
    back_to_the_canvas(page)

    # a quick fix for the missing watermarks, in the list of problems
    go_to(page, "Take the event time of Generator from id")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Problems").get_by_text("Error:")).to_have_count(0)

    go_to(page, "Canvas", key="Shift+Tab")
    page.keyboard.press("p")
    status = page.get_by_role("tabpanel", name="Preview").get_by_role("status")
    expect(status).to_contain_text("Finished", timeout=SLOW_MS)
    go_to(page, "Window aggregate")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Rows of Window aggregate").locator("tbody tr").first).to_be_visible()

    # it takes long to say what runs: Enter is kept until it is known
    held: list[Route] = []
    page.route("**/deployments", lambda route: held.append(route))
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search commands")).to_be_focused()
    page.keyboard.type("deploy")
    expect(page.get_by_role("option", name="Deploy", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Deploy")
    expect(dialog.get_by_role("textbox", name="What has changed")).to_be_focused()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("button", name="Save and deploy")).to_have_attribute("data-loading", "true")
    for route in held:
        route.continue_()
    page.unroute("**/deployments")
    expect(page.get_by_role("status", name="Outcome")).to_have_text(re.compile(r"^Version 2 runs\.$"), timeout=SLOW_MS)
    go_to(page, "Open the job")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/ui/jobs/[0-9a-f]{32}"))
    job_id = page.url.rsplit("/", 1)[-1][:32]
    expect(cell(vertex_row(page, "Generator"), 4).locator("div")).to_have_text(re.compile(r"^[1-9]"), timeout=SLOW_MS)

    site.wait_for_state(job_id, "FINISHED", 180)
    program = site.get(f"/api/v1/pipelines/{pipeline}/export?format=python")["text"]
    path = tmp_path / "program.py"
    path.write_text(program.replace(str(output), str(alone)))
    ran = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    kept = sorted(json.dumps(row, sort_keys=True) for row in rows(output))
    assert kept == sorted(json.dumps(row, sort_keys=True) for row in rows(alone))
    assert sum(json.loads(row)["bids"] for row in kept) == 3000

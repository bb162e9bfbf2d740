"""Pipelines become jobs: first deployments, replacements, rollbacks; failures in Python lead to their lines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cluster.stack import ROOT
from tests.e2e.site import Site, cell, vertex_row
from tests.e2e.test_editor import add, field, new_pipeline, problems
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SLOW_MS = 90_000


def rows(output: Path) -> Iterator[dict[str, Any]]:
    """The rows of all committed files."""
    for path in sorted(output.rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            yield from map(json.loads, path.read_text().splitlines())


def numbers(output: Path, **more: Any) -> dict[str, Any]:
    """A pipeline that writes the numbers from 0, without end, exactly once."""
    return {
        "format": "tidemark.pipeline",
        "version": 1,
        "name": "Numbers",
        "settings": {"parallelism": 1, "checkpointing": {"interval": "1 s"}},
        "nodes": {
            "n1": {
                "type": "source.generator",
                "name": "Generator",
                "uid": "generator-1",
                "params": {"fields": [["id", {"kind": "sequence"}]], "rows_per_second": 200},
            },
            "n2": {
                "type": "with_columns",
                "name": "Twice",
                "uid": "twice-1",
                "params": {"columns": [["twice", "id * 2"]]},
            },
            "n3": {
                "type": "sink.files",
                "name": "Files",
                "uid": "files-1",
                "params": {"path": str(output), "format": {"kind": "ndjson"}},
            },
        },
        "edges": {"e1": {"from": ["n1", "out"], "to": ["n2", "in"]}, "e2": {"from": ["n2", "out"], "to": ["n3", "in"]}},
        "layout": {"positions": {"n1": [0, 0], "n2": [300, 0], "n3": [600, 0]}},
        **more,
    }


def create(site: Site, page: Page, document: dict[str, Any]) -> str:
    """Create a pipeline over REST and open it; returns its id."""
    page.goto(f"{site.url}/ui/pipelines")
    expect(page.get_by_role("heading", name="Pipelines", level=1)).to_be_visible()
    token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken")
    answer = page.request.post(
        f"{site.url}/api/v1/pipelines",
        data={"document": document},
        headers={"X-CSRFToken": token, "Referer": site.url},
    )
    assert answer.status == 201, answer.text()
    pipeline = str(answer.json()["id"])
    page.goto(f"{site.url}/ui/pipelines/{pipeline}/edit")
    expect(page.get_by_role("textbox", name="Name of the pipeline")).to_have_value(document["name"])
    return pipeline


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def phase(page: Page, state: str) -> Locator:
    return dialog(page).get_by_role("list", name="Phases of the deployment").get_by_text(state, exact=True)


def outcome(page: Page) -> Locator:
    return dialog(page).get_by_role("status", name="Outcome")


def deploy_first(site: Site, page: Page, pipeline: str, button: str) -> str:
    """Deploy what is drawn where nothing runs; returns the job's id."""
    page.get_by_role("button", name="Deploy", exact=True).click()
    # a double click is one deployment
    dialog(page).get_by_role("button", name=button).dblclick()
    expect(phase(page, "SUBMITTED")).to_be_visible(timeout=SLOW_MS)
    expect(outcome(page)).to_have_text(re.compile(r"^Version \d+ runs\.$"), timeout=SLOW_MS)
    found = site.get(f"/api/v1/pipelines/{pipeline}/deployments")["deployments"]
    assert len(found) == 1
    return str(found[0]["job_id"])


def redeploy(page: Page) -> None:
    """Ask for what is drawn in place of the job that runs, up to the report on its state."""
    page.get_by_role("button", name="Redeploy", exact=True).click()
    dialog(page).get_by_role("button", name="Save and review the state").click()
    expect(dialog(page).get_by_role("table", name="State of each node")).to_be_visible(timeout=SLOW_MS)


def verdict(page: Page, node: str) -> Locator:
    table = dialog(page).get_by_role("table", name="State of each node")
    return cell(table.get_by_role("row").filter(has=page.get_by_role("cell", name=node, exact=True)), 1)


def has_rows(output: Path, count: int) -> None:
    wait_until(lambda: sum(1 for _ in rows(output)) >= count, 120, f"{count} rows are committed in {output}")


def stop(site: Site, job_id: str) -> None:
    """Stop a job with a savepoint, so that all it has read is committed."""
    site.stack.client.stop(job_id, None, "CANONICAL", drain=False)
    site.wait_for_state(job_id, "FINISHED", 120)


def test_a_pipeline_is_drawn_mended_and_deployed_and_writes_what_its_program_writes(
    site: Site, page: Page, tmp_path: Path
) -> None:
    output, alone = tmp_path / "deployed", tmp_path / "alone"
    pipeline = new_pipeline(site, page)
    add(page, "generator", "Generator")
    page.get_by_role("tab", name="Docs").click()
    page.get_by_role("button", name="Use this example").first.click()
    page.get_by_role("tab", name="Form").click()
    field(page, "/params/count").fill("6000")
    field(page, "/params/rows_per_second").fill("300")
    page.locator("[data-canvas]").focus()
    add(page, "window aggregate", "Window aggregate")
    page.get_by_role("tab", name="Docs").click()
    page.get_by_role("button", name="Use this example").first.click()
    page.get_by_role("tab", name="Form").click()
    keys = page.get_by_placeholder("columns").or_(page.locator('input[data-field="/params/keys"]')).first
    keys.press("Backspace")
    keys.fill("amount")
    keys.press("Enter")
    page.keyboard.press("Tab")
    field(page, "/params/window/size").fill("1 s")
    page.get_by_role("button", name="Remove 2").click()
    page.locator("[data-canvas]").focus()
    add(page, "appear whole", "Files")
    field(page, "/params/path").fill(str(output))
    page.get_by_role("button", name="Deploy", exact=True).click()
    # nothing is deployed that would wait for ever
    expect(dialog(page).get_by_role("list", name="Blocking problems")).to_contain_text("no event time")
    dialog(page).get_by_role("button", name="Close").last.click()
    problems(page).get_by_role("button", name=re.compile("Take the event time of Generator from id")).click()
    expect(page.get_by_role("list", name="Problems").get_by_text("Error:")).to_have_count(0)
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(page.get_by_role("tabpanel", name="Preview").get_by_role("status")).to_contain_text(
        "Finished", timeout=SLOW_MS
    )
    counted = page.get_by_role("table", name="Rows of Window aggregate").locator("tbody tr")
    page.get_by_role("list", name="Outputs").get_by_role("button", name="Window aggregate").click()
    expect(counted.first).to_be_visible()
    job_id = deploy_first(site, page, pipeline, "Save and deploy")
    dialog(page).get_by_role("link", name="Open the job").click()
    expect(page).to_have_url(re.compile(f"/ui/jobs/{job_id}"))
    sent = cell(vertex_row(page, "Generator"), 4)
    # rows a second, while it runs
    expect(sent.locator("div")).to_have_text(re.compile(r"^[1-9]"), timeout=SLOW_MS)
    # back to what was drawn
    expect(page.get_by_role("link", name=re.compile("version 2"))).to_have_attribute(
        "href", f"/ui/pipelines/{pipeline}/edit?version=2"
    )
    site.wait_for_state(job_id, "FINISHED", 180)
    program = site.get(f"/api/v1/pipelines/{pipeline}/export?format=python")["text"]
    path = tmp_path / "program.py"
    path.write_text(program.replace(str(output), str(alone)))
    ran = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    kept = sorted(json.dumps(row, sort_keys=True) for row in rows(output))
    assert kept == sorted(json.dumps(row, sort_keys=True) for row in rows(alone))
    assert sum(json.loads(row)["bids"] for row in kept) == 6000


def test_a_job_is_replaced_from_its_savepoint_without_gap_or_repeat(site: Site, page: Page, tmp_path: Path) -> None:
    output = tmp_path / "numbers"
    pipeline = create(site, page, numbers(output))
    first = deploy_first(site, page, pipeline, "Deploy")
    dialog(page).get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("link", name="Version 1 runs")).to_have_attribute("href", f"/ui/jobs/{first}")
    has_rows(output, 200)
    page.get_by_role("button", name="Outline").click()
    page.get_by_role("treeitem").get_by_text("Twice", exact=True).first.click()
    page.locator(".cm-content").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("id * 3")
    page.keyboard.press("Tab")
    redeploy(page)
    expect(verdict(page, "Generator")).to_have_text("goes on at its position")
    dialog(page).get_by_role("button", name="Redeploy", exact=True).click()
    for reached in ("COMPILED", "CHECKED", "STOPPING", "SUBMITTED", "RUNNING"):
        expect(phase(page, reached)).to_be_visible(timeout=SLOW_MS)
    # a reload in between changes nothing of it
    page.reload()
    second = site.get(f"/api/v1/pipelines/{pipeline}/deployments")["deployments"][0]["id"]

    def state() -> str:
        return str(site.get(f"/api/v1/pipelines/{pipeline}/deployments/{second}")["state"])

    wait_until(lambda: state() == "RUNNING", 180, "the second version runs")
    expect(page.get_by_role("link", name="Version 2 runs")).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("button", name="More about deployments").click()
    page.get_by_role("menuitem", name="Last deployment").click()
    expect(outcome(page)).to_contain_text("Version 2 runs in place of version 1.")
    job_id = site.get(f"/api/v1/pipelines/{pipeline}/deployments/{second}")["job_id"]
    before = sum(1 for _ in rows(output))
    has_rows(output, before + 200)
    stop(site, job_id)
    written = list(rows(output))
    assert sorted(row["id"] for row in written) == list(range(len(written)))
    factors = {row["twice"] // row["id"] for row in written if row["id"] > 0}
    assert factors == {2, 3}


def test_a_version_that_fails_is_rolled_back_and_its_failure_opens_the_line(
    site: Site, page: Page, tmp_path: Path
) -> None:
    output = tmp_path / "numbers"
    document = numbers(output, name="Fragile numbers")
    pipeline = create(site, page, document)
    deploy_first(site, page, pipeline, "Deploy")
    dialog(page).get_by_role("button", name="Close").last.click()
    has_rows(output, 100)
    broken = {
        "type": "python.map",
        "name": "Broken",
        "uid": "broken-1",
        "params": {
            "code": ["def broken(row):", "    # the line after this one fails", "    return row / 0"],
            "type": [["id", "long"], ["twice", "long"]],
        },
    }
    document["nodes"]["n4"] = broken
    document["edges"] = {
        "e1": {"from": ["n1", "out"], "to": ["n2", "in"]},
        "e3": {"from": ["n2", "out"], "to": ["n4", "in"]},
        "e4": {"from": ["n4", "out"], "to": ["n3", "in"]},
    }
    document["layout"]["positions"]["n4"] = [450, 120]
    token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "csrftoken")
    answer = page.request.put(
        f"{site.url}/api/v1/pipelines/{pipeline}/draft",
        data={"document": document, "base": 1},
        headers={"X-CSRFToken": token, "Referer": site.url, "If-None-Match": "*"},
    )
    assert answer.ok, answer.text()
    page.reload()
    expect(page.get_by_text("Draft of version 1", exact=False)).to_be_visible()
    redeploy(page)
    dialog(page).get_by_role("button", name="Redeploy", exact=True).click()
    expect(phase(page, "ROLLED_BACK")).to_be_visible(timeout=SLOW_MS)
    expect(outcome(page)).to_contain_text("version 1 goes on from its savepoint", timeout=2 * SLOW_MS)
    expect(outcome(page)).to_contain_text(re.compile("the new job (fails|has failed)"))
    newest, first = site.get(f"/api/v1/pipelines/{pipeline}/deployments")["deployments"]
    assert newest["state"] == "ROLLED_BACK"
    site.wait_for_state(first["job_id"], "RUNNING", 120)
    dialog(page).get_by_role("link", name="What the failed job says").click()
    expect(page.get_by_text("ZeroDivisionError").or_(page.get_by_text("TypeError")).first).to_be_visible()
    page.get_by_role("link", name="Open Broken, line 3").first.click()
    expect(page.get_by_role("textbox", name="Name of the node")).to_have_value("Broken")
    expect(page.locator('[data-field="/params/code"] .cm-line').nth(2)).to_have_class(re.compile("marked"))
    before = sum(1 for _ in rows(output))
    has_rows(output, before + 100)
    stop(site, first["job_id"])
    written = sorted(row["id"] for row in rows(output))
    assert written == list(range(len(written)))


def test_versions_are_compared_and_restored(site: Site, page: Page, tmp_path: Path) -> None:
    create(site, page, numbers(tmp_path / "numbers", name="Compared numbers"))
    page.get_by_role("button", name="Outline").click()
    page.get_by_role("treeitem").get_by_text("Twice", exact=True).first.click()
    page.locator(".cm-content").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("id * 3")
    page.locator("[data-canvas]").focus()
    add(page, "filter", "Filter")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Versions").click()
    versions = page.get_by_role("list", name="Versions")
    versions.get_by_role("button", name="Actions of version 1").click()
    page.get_by_role("menuitem", name="Compare with what is drawn").click()
    differs = page.get_by_role("complementary", name="What differs")
    twice = differs.get_by_role("listitem").filter(has_text="Twice").first
    expect(twice).to_contain_text("changed")
    expect(twice).to_contain_text("id * 3")
    expect(differs.get_by_role("listitem").filter(has_text="Filter").first).to_contain_text("added")
    page.get_by_text("Python", exact=True).first.click()
    expect(page.get_by_role("group", name="Differences between the programs")).to_contain_text("id * 2")
    page.get_by_role("button", name="Back to the pipeline").click()
    versions.get_by_role("button", name="Actions of version 1").click()
    page.get_by_role("menuitem", name="Open to read").click()
    expect(page.get_by_text("Version 1 · read only")).to_be_visible()
    page.get_by_role("button", name="Back to the draft").click()
    expect(page.get_by_text("Draft of version 1", exact=False)).to_be_visible()
    versions.get_by_role("button", name="Actions of version 1").click()
    page.get_by_role("menuitem", name="Restore as the draft").click()
    # equal to the head again, until that is undone
    expect(page.get_by_text("Version 1", exact=True).first).to_be_visible()
    page.get_by_role("button", name="Undo: Version 1 again").click()
    expect(page.get_by_text("Draft of version 1", exact=False)).to_be_visible()


def test_the_page_of_a_job_shows_the_pipeline_as_it_was_drawn(site: Site, page: Page, tmp_path: Path) -> None:
    pipeline = create(site, page, numbers(tmp_path / "numbers"))
    job_id = deploy_first(site, page, pipeline, "Deploy")
    site.open_job(page, job_id)
    picture = page.get_by_role("region", name="Job graph")
    picture.get_by_role("radiogroup", name="Picture of the job").get_by_text("Pipeline", exact=True).click()
    expect(page).to_have_url(re.compile("picture=pipeline"))
    for name in ("Generator", "Twice", "Files"):
        expect(picture.get_by_role("button", name=name, exact=True)).to_be_visible(timeout=SLOW_MS)
    # figures of the node, not of its whole vertex
    twice = picture.locator(".react-flow__node").filter(has_text="Twice")
    expect(twice).to_contain_text(re.compile("Received[1-9]"), timeout=SLOW_MS)
    picture.get_by_role("button", name="Twice", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("tab", name="Detail")).to_be_visible()
    site.cancel(job_id)

"""The web process is killed in the midst of a save, a preview and a redeployment: nothing is lost or done twice."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import Site
from tests.e2e.test_deploy import SLOW_MS, create, deploy_first, dialog, has_rows, numbers, redeploy, rows, stop
from tests.e2e.test_editor import add, new_pipeline
from tests.e2e.test_preview import auctions, children, node, opened, status
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def kill_web(site: Site) -> None:
    """Kill the web process; the supervisor starts another one."""
    pid = site.stack.pid_of("web")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: site.stack.pid_of("web") != pid, 30, "web is started again")


def answers(site: Site) -> bool:
    try:
        site.get("/overview")
    except OSError:
        return False
    return True


def wait_for_web(site: Site) -> None:
    wait_until(lambda: answers(site), 60, "web answers")


def versions(site: Site, pipeline: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.get(f"/api/v1/pipelines/{pipeline}/versions")["versions"]
    return sorted(found, key=lambda version: int(version["number"]))


def test_each_save_makes_one_version_whenever_web_is_killed(site: Site, page: Page) -> None:
    pipeline, draw = new_pipeline(site, page), random.Random(7)
    messages = []
    for save in range(6):
        page.locator("[data-canvas]").focus()
        add(page, "nexmark", "Nexmark auction" if save == 0 else f"Nexmark auction {save + 1}")
        page.locator("[data-canvas]").focus()
        page.keyboard.press("Escape")
        messages.append(f"save {save}")
        page.get_by_role("button", name="Save", exact=True).click()
        dialog(page).get_by_role("textbox").fill(messages[-1])
        dialog(page).get_by_role("button", name="Save").click(no_wait_after=True)
        # before the request, in the midst of it, and after its answer
        page.wait_for_timeout(draw.random() * 60)
        kill_web(site)
        wait_for_web(site)
        for _ in range(5):
            if dialog(page).count() == 0:
                break
            # as somebody does who reads that it has failed
            dialog(page).get_by_role("button", name="Save").click()
            page.wait_for_timeout(2_000)
        expect(dialog(page)).to_have_count(0)
        expect(page.get_by_text(f"Version {save + 2}", exact=True)).to_be_visible()
    made = versions(site, pipeline)
    assert [version["number"] for version in made] == list(range(1, 8))
    assert [version["message"] for version in made][1:] == messages
    newest = site.get(f"/api/v1/pipelines/{pipeline}/versions/7")["document"]
    assert len(newest["nodes"]) == 6


def test_a_preview_whose_web_process_is_killed_ends_and_says_so(site: Site, page: Page) -> None:
    sleeper = ["def slow(row):", "    import time", "    time.sleep(3600)", "    return row"]
    document = auctions()
    document["nodes"]["dear"] = node("python.filter", "Dear", code=sleeper)
    opened(site, page, document)
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Running")
    wait_until(lambda: bool(children(site)), 30, "its process runs")
    running = children(site)
    kill_web(site)
    wait_until(lambda: not any(process.is_running() for process in running), 20, "its processes have ended")
    wait_for_web(site)
    expect(status(page)).not_to_contain_text("Running", timeout=SLOW_MS)
    # and another one runs
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Running", timeout=SLOW_MS)
    page.get_by_role("button", name="Stop preview").click()
    expect(status(page)).to_contain_text("Stopped")


@pytest.mark.parametrize("moment", ["STOPPING", "SUBMITTED"])
def test_a_redeployment_goes_on_while_web_is_gone(moment: str, site: Site, page: Page, tmp_path: Path) -> None:
    output = tmp_path / "numbers"
    pipeline = create(site, page, numbers(output, name=f"Numbers at {moment}"))
    deploy_first(site, page, pipeline, "Deploy")
    dialog(page).get_by_role("button", name="Close").last.click()
    has_rows(output, 200)
    page.get_by_role("button", name="Outline").click()
    page.get_by_role("treeitem").get_by_text("Twice", exact=True).first.click()
    page.locator(".cm-content").first.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("id * 3")
    page.keyboard.press("Tab")
    redeploy(page)
    dialog(page).get_by_role("button", name="Redeploy", exact=True).click()
    phases = dialog(page).get_by_role("list", name="Phases of the deployment")
    expect(phases.get_by_text(moment, exact=True)).to_be_visible(timeout=SLOW_MS)
    kill_web(site)
    # the page stays as it is, and sees the end
    outcome = dialog(page).get_by_role("status", name="Outcome")
    expect(outcome).to_contain_text("Version 2 runs in place of version 1.", timeout=2 * SLOW_MS)
    newest = site.get(f"/api/v1/pipelines/{pipeline}/deployments")["deployments"]
    assert [found["state"] for found in newest][:1] == ["RUNNING"] and len(newest) == 2
    before = sum(1 for _ in rows(output))
    has_rows(output, before + 200)
    stop(site, newest[0]["job_id"])
    written = list(rows(output))
    assert sorted(row["id"] for row in written) == list(range(len(written)))
    assert {row["twice"] // row["id"] for row in written if row["id"] > 0} == {2, 3}
    assert re.fullmatch(r"[0-9a-f]{32}", newest[0]["job_id"])

"""Flink's own web page drives a cluster of Tidemark: all that it shows of a job and of the cluster, and a cancellation.

The page is not ours and not in the tree: scripts/flink_ui.sh fetches it. Its profiler is left out: as in Flink without
`rest.profiling.enabled`, there are no such routes, and the page says that it is switched off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.flink_page import FlinkPage, jar, serving
from tests.e2e.site import HELLO, Site
from tests.e2e.test_checkpoints import start
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(jar() is None, reason="the jar of Flink's page is not there: run scripts/flink_ui.sh"),
]

#: page of a vertex → what it asks for behind the vertex
VERTEX_PAGES = {
    "detail": "(/.*)?",
    "subtasks": "(/.*)?",
    "taskmanagers": "/taskmanagers",
    "watermarks": r"/(watermarks|metrics)(\?.*)?",
    "accumulators": "/(subtasks/)?accumulators",
    "backpressure": "/backpressure",
    "metrics": r"/metrics(\?.*)?",
    "flamegraph": r"/flamegraph(\?.*)?",
}


@dataclass
class Visit:
    """A browser on Flink's page."""

    shown: FlinkPage
    page: Page

    def open(self, path: str) -> None:
        """Open a page by its path behind the `#`."""
        self.page.goto(f"{self.shown.url}#/{path}")

    def sees(self, *texts: str) -> None:
        for text in texts:
            expect(self.page.get_by_text(text).first).to_be_visible()

    def asked_for(self, pattern: str) -> bool:
        """Return whether the page has asked the cluster for a path, and got it."""
        return any(re.fullmatch(pattern, path) and status < 400 for _, path, status in self.shown.answers)

    def has_text_shown(self, page: str) -> None:
        """See the editor in which some pages show texts; left before it is there, Flink's page throws."""
        if page in ("logs", "stdout", "thread-dump"):
            expect(self.page.locator(".monaco-editor").first).to_be_visible()

    def waits_for(self, pattern: str) -> None:
        def is_there() -> bool:
            # the browser's events come while it is waited for
            self.page.wait_for_timeout(50)
            return self.asked_for(pattern)

        wait_until(is_there, 20, pattern)


@pytest.fixture
def visit(site: Site, browser: Browser) -> Iterator[Visit]:
    """A page that may not throw, and may be refused nothing."""
    archive = jar()
    assert archive is not None
    token = (site.stack.home / "admin-token").read_text().strip()
    with serving(archive, site.stack.port, token) as shown:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page, problems = context.new_page(), list[str]()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        yield Visit(shown, page)
        context.close()
        assert shown.answers and shown.refused() == [] and problems == []


def test_a_running_job_is_seen_down_to_its_subtasks_and_cancelled(site: Site, visit: Visit, tmp_path: Path) -> None:
    job = start(site, tmp_path / "out", "driven by Flink's page")
    vertices = site.get(f"/jobs/{job}")["vertices"]
    visit.open("overview")
    visit.sees("Available Task Slots", "Running Job List")
    visit.page.get_by_text("driven by Flink's page").first.click()
    # the graph, by the names of its vertices
    for vertex in vertices:
        visit.sees(vertex["name"].split(":")[0])
    visit.waits_for(f"/jobs/{job}/plan|/jobs/{job}")

    vertex = vertices[-1]["id"]
    for page, path in VERTEX_PAGES.items():
        visit.open(f"job/running/{job}/overview/{vertex}/{page}")
        visit.waits_for(f"/jobs/{job}/vertices/{vertex}{path}")

    visit.open(f"job/running/{job}/timeline")
    visit.sees("RUNNING")
    visit.open(f"job/running/{job}/exceptions")
    visit.waits_for(rf"/jobs/{job}/exceptions(\?.*)?")
    visit.open(f"job/running/{job}/checkpoints")
    visit.waits_for(f"/jobs/{job}/checkpoints")
    visit.waits_for(f"/jobs/{job}/checkpoints/config")
    visit.open(f"job/running/{job}/configuration")
    visit.waits_for(f"/jobs/{job}/config")

    visit.page.get_by_text("Cancel Job").click()
    visit.page.get_by_role("button", name="Yes").click()
    site.wait_for_state(job, "CANCELED")
    visit.open("job/completed")
    visit.sees("driven by Flink's page", "CANCELED")


def test_the_pages_of_jobmanager_and_taskmanagers_are_filled(site: Site, visit: Visit) -> None:
    [manager] = [one["id"] for one in site.get("/taskmanagers")["taskmanagers"]]
    visit.open("task-manager")
    visit.sees(manager)
    for page, path in (
        ("metrics", r"/metrics\?.*"),
        ("logs", "/log"),
        ("stdout", "/stdout"),
        ("log-list", "/logs"),
        ("thread-dump", "/thread-dump"),
    ):
        visit.open(f"task-manager/{manager}/{page}")
        visit.waits_for(f"/taskmanagers/{manager}{path}")
        visit.has_text_shown(page)
    for page, path in (
        ("metrics", r"/metrics\?.*"),
        ("config", "/config"),
        ("logs", "/log"),
        ("stdout", "/stdout"),
        ("log", "/logs"),
        ("thread-dump", "/thread-dump"),
    ):
        visit.open(f"job-manager/{page}")
        visit.waits_for(f"/jobmanager{path}")
        visit.has_text_shown(page)


def test_a_program_is_uploaded_planned_and_run(site: Site, visit: Visit) -> None:
    visit.open("submit")
    visit.sees("Uploaded Jars")
    with visit.page.expect_file_chooser() as chosen:
        visit.page.get_by_text("Add New").click()
    chosen.value.set_files(HELLO)
    visit.sees(HELLO.name)
    assert ("POST", "/jars/upload", 200) in visit.shown.answers

    visit.page.get_by_text(HELLO.name).first.click()
    visit.page.locator("input[placeholder=Parallelism]:visible").fill("1")
    visit.page.locator("button:visible", has_text="Show Plan").click()
    visit.waits_for(r"/jars/[^/]+/plan\?.*")
    visit.sees("Plan Visualization", "Parallelism: 1")
    visit.page.keyboard.press("Escape")
    visit.page.locator("button:visible", has_text="Submit").click()
    visit.page.wait_for_url(re.compile(r"#/job/running/[0-9a-f]{32}"))
    [job] = re.findall(r"[0-9a-f]{32}", visit.page.url)
    site.wait_for_state(job, "FINISHED")

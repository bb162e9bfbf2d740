"""The site under test: a running stack, its REST interface, and the moves that several journeys make on its pages."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.cluster.stack import ROOT, Stack
from tests.support.waiting import wait_until

DEMO = "Flights live"
PROGRAMS = Path(__file__).parent / "programs"
HELLO = ROOT / "examples" / "hello_events.py"


@dataclass(frozen=True, slots=True)
class Site:
    """A stack as its users see it."""

    stack: Stack

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.stack.port}"

    def get(self, path: str) -> Any:
        """The JSON that a route answers to the administrator's token."""
        token = (self.stack.home / "admin-token").read_text().strip()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def job_ids(self, name: str) -> list[str]:
        """Return the ids of all jobs of that name, newest first."""
        jobs = [job for job in self.get("/jobs/overview")["jobs"] if job["name"] == name]
        return [job["jid"] for job in sorted(jobs, key=lambda job: -job["start-time"])]

    def state(self, job_id: str) -> str:
        return str(self.get(f"/jobs/{job_id}/status")["status"])

    def wait_for_state(self, job_id: str, state: str, timeout_s: float = 40) -> None:
        wait_until(lambda: self.state(job_id) == state, timeout_s, f"{job_id} is {state}")

    def wait_for_demo(self) -> str:
        """The demo's id, once all of its tasks run."""
        job_id = self.job_ids(DEMO)[0]

        def runs() -> bool:
            tasks = self.get("/jobs/overview")["jobs"]
            tasks = next(job["tasks"] for job in tasks if job["jid"] == job_id)
            return bool(tasks["running"] == tasks["total"] > 0)

        wait_until(runs, 60, "all tasks of the demo run")
        return job_id

    def run(
        self,
        program: Path,
        *arguments: str,
        parallelism: int | None = None,
        configuration: Mapping[str, str] | None = None,
    ) -> str:
        """Upload and run a program over REST; returns the job's id."""
        client = self.stack.client
        artifact = client.upload(program)
        return client.run(
            artifact, parallelism=parallelism, args=arguments, configuration=configuration or {}, entry=None
        )

    def cancel(self, job_id: str) -> None:
        """End a job and wait until it has ended."""
        self.stack.client.cancel(job_id)
        self.wait_for_state(job_id, "CANCELED")

    def open_job(self, page: Page, job_id: str, query: str = "") -> None:
        page.goto(f"{self.url}/ui/jobs/{job_id}{query}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def shown_job(page: Page) -> str:
    """The id of the job whose page this is."""
    found = re.search("/ui/jobs/([0-9a-f]{32})", page.url)
    assert found is not None, page.url
    return found[1]


def job_state(page: Page, state: str) -> Locator:
    """The badge beside the job's name."""
    return page.locator("header").filter(has=page.get_by_role("heading", level=1)).get_by_text(state, exact=True)


def fact(page: Page, name: str) -> Locator:
    """A value in the head of the job page."""
    return page.locator("dt", has_text=re.compile(f"^{name}$")).locator("xpath=following-sibling::dd")


def notices(page: Page) -> Locator:
    """The lines on top of a job's page that say why it failed or restarts, and what it waits for."""
    return page.get_by_role("status", name="Notices").get_by_role("paragraph")


def vertex_row(page: Page, name: str) -> Locator:
    """A vertex's row in the table below the graph."""
    return page.get_by_role("table", name="Vertices").get_by_role("row").filter(has_text=name)


def cell(row: Locator, column: int) -> Locator:
    return row.get_by_role("cell").nth(column)


def upload(page: Page, program: Path) -> None:
    """Choose a file on the page for submitting, and see that it is ready to run."""
    page.get_by_label("Choose a program").set_input_files(program)
    expect(page.get_by_role("heading", name=f"Run {program.name}")).to_be_visible()


def choose_action(page: Page, name: str) -> None:
    """Choose an item of the menu on top of a job's page."""
    page.get_by_role("button", name="Actions", exact=True).click()
    page.get_by_role("menuitem", name=name, exact=True).click()


def confirm_cancel(page: Page) -> Locator:
    """Choose "Cancel job" among the actions and give the dialog that asks."""
    choose_action(page, "Cancel job")
    dialog = page.get_by_role("dialog", name="Cancel this job?")
    expect(dialog).to_be_visible()
    return dialog

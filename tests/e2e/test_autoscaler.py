"""The autoscaler on a job's page: switched on, seen to decide and why, and switched off."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import PROGRAMS, Site, cell, vertex_row

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

#: a start or a restart takes Spark some seconds, on a busy machine many
START_MS = 60_000
OPTIONS = {
    "execution.checkpointing.interval": "1 s",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.metrics.window": "5 s",
    "job.autoscaler.vertex.max-parallelism": "2",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "2 s",
}


def test_a_job_that_cannot_keep_up_is_scaled_once_its_autoscaler_is_switched_on(site: Site, page: Page) -> None:
    client = site.stack.client
    job_id = client.run(client.upload(PROGRAMS / "busy.py"), [], OPTIONS, 1, None)
    site.wait_for_state(job_id, "RUNNING", 60)
    site.open_job(page, job_id)
    panel = page.get_by_role("region", name="Autoscaler")
    requirements = page.get_by_role("region", name="Job requirements")
    upper = requirements.get_by_role("textbox", name=re.compile("^Upper bound of slow"))
    expect(panel).to_contain_text("Off: the parallelism stays as it is.")
    expect(upper).to_have_value("1")

    switch = panel.get_by_role("switch", name="Autoscaler")
    # the input lies below its track; its state is the server's
    switch.click(force=True)
    expect(switch).to_be_checked(timeout=START_MS)
    expect(panel).to_contain_text(re.compile("Stabilising|Measuring"), timeout=START_MS)
    # the room that it has is shown as the bounds
    expect(upper).to_have_value("2", timeout=START_MS)
    expect(requirements.get_by_role("note")).to_contain_text("The autoscaler's bounds.")

    expect(panel).to_contain_text("One decision", timeout=START_MS)
    panel.get_by_text("One decision").click()
    decided = panel.get_by_role("table", name="What the autoscaler has decided")
    expect(decided).to_contain_text(re.compile(r"slow.* 1 .*2"))
    expect(decided).to_contain_text("needs 2 subtasks at 70%")
    expect(cell(vertex_row(page, "slow"), 2)).to_have_text("2", timeout=START_MS)

    switch.click(force=True)
    expect(panel).to_contain_text("Off: the parallelism stays as it is.", timeout=START_MS)
    expect(upper).to_have_value("2")
    expect(requirements.get_by_role("note")).to_have_count(0)
    # what it has decided is still told
    expect(decided).to_contain_text("needs 2 subtasks at 70%")
    site.cancel(job_id)

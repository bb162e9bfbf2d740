"""A job with a slow sink: the command line names it; operators' and users' metrics reach REST and the page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.site import PROGRAMS, Site
from tests.e2e.test_cli import tidemark
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

USERS = "watched.tide_gauge.seen"


@pytest.fixture(scope="module")
def slow_job(site: Site) -> Iterator[str]:
    """Its id, once its back-pressure has reached the source."""
    job_id = site.run(PROGRAMS / "slow_sink.py", parallelism=2)

    def is_held_back() -> bool:
        vertices = site.stack.client.live(job_id)["vertices"]
        return all(vertex["metrics"]["back_pressured"] > 500 for vertex in vertices[:2])

    wait_until(is_held_back, 60, "back-pressure at the source")
    yield job_id
    if site.state(job_id) == "RUNNING":
        site.cancel(job_id)


def info(site: Site, job_id: str) -> subprocess.CompletedProcess[str]:
    return tidemark(site, "info", job_id)


def vertex_of(site: Site, job_id: str, name: str) -> str:
    """The route of a vertex."""
    [found] = [v["id"] for v in site.get(f"/jobs/{job_id}")["vertices"] if name in v["name"]]
    return f"/v1/jobs/{job_id}/vertices/{found}"


def value(site: Site, path: str, metric: str) -> str | None:
    """Return the value of a metric, None as long as it is unknown."""
    answer = site.get(f"{path}/metrics?get={metric}")
    return str(answer[0]["value"]) if answer else None


def test_info_names_the_slow_sink_and_who_waits_for_it(site: Site, slow_job: str) -> None:
    told: list[str] = []

    def is_named() -> bool:
        told.append(info(site, slow_job).stdout)
        return bool(
            re.search(r"^Why: Sink: slow .* (9\d|100) % of the time.*; 2 vertices upstream", told[-1], re.MULTILINE)
        )

    # while the queues fill up, the load of a second may still be another one's
    wait_until(is_named, 30, "the sink is named")
    print(told[-1])
    [fast] = [line for line in told[-1].splitlines() if line.startswith("Source: fast")]
    back_pressured, _ = fast.split()[-2:]
    assert int(back_pressured) > 50, fast


def test_metrics_of_operators_and_users_reach_rest_by_flinks_ids(site: Site, slow_job: str) -> None:
    watched, sink = vertex_of(site, slow_job, "watched"), vertex_of(site, slow_job, "slow")
    wait_until(lambda: value(site, watched, f"1.{USERS}") is not None, 20, "the first report")
    seen = [int(str(value(site, watched, f"{subtask}.{USERS}"))) for subtask in (0, 1)]
    [figures] = site.get(f"{watched}/subtasks/metrics?get={USERS}&agg=sum")
    assert figures["sum"] >= sum(seen) > 0
    assert value(site, f"{watched}/subtasks/0", "watched.tide_gauge.state") == "flood"
    assert float(str(value(site, f"{watched}/subtasks/0", "watched.tide_gauge.rate"))) > 0
    assert value(site, f"{watched}/subtasks/0", "isBackPressured") in ("true", "false")
    ids = {entry["id"] for entry in site.get(f"{sink}/metrics")}
    assert {"0.Sink__slow.numRecordsSend", "1.Sink__slow.currentSendTime", "0.mailboxLatencyMs_p99"} <= ids
    # what is read on demand is not sent to every open page
    assert USERS not in str(site.stack.client.live(slow_job))


def test_the_metrics_tab_lists_them_by_operator_with_each_subtasks_value(site: Site, page: Page, slow_job: str) -> None:
    vertex_id = vertex_of(site, slow_job, "watched").rpartition("/")[2]
    site.open_job(page, slow_job, f"?vertex={vertex_id}&vtab=metrics")
    table = page.get_by_role("dialog").get_by_role("table", name="Metrics")
    expect(table.get_by_role("columnheader", name="Subtask 1")).to_be_visible()
    expect(table.get_by_role("cell", name="busyTimeMsPerSecond", exact=True)).to_be_visible()
    page.get_by_label("Filter metrics").fill("GAUGE.seen")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_have_text("watched")
    expect(rows.nth(2)).to_contain_text(re.compile(r"tide_gauge\.seen[1-9][\d,]*"))
    page.get_by_label("Filter metrics").fill("no such metric")
    expect(page.get_by_text("No metric matches the filter")).to_be_visible()


def test_the_metrics_tab_is_live(site: Site, page: Page, slow_job: str) -> None:
    vertex_id = vertex_of(site, slow_job, "slow").rpartition("/")[2]
    site.open_job(page, slow_job, f"?vertex={vertex_id}&vtab=metrics")
    page.get_by_label("Filter metrics").fill("slow.numRecordsSend")
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="numRecordsSend", exact=True))
    expect(row).to_have_text(re.compile("numRecordsSend[1-9]"))
    expect(row).not_to_have_text(row.inner_text(), use_inner_text=True)


def test_each_edge_says_what_goes_over_it_and_what_waits(site: Site, page: Page, slow_job: str) -> None:
    watched = vertex_of(site, slow_job, "watched").rpartition("/")[2]
    site.open_job(page, slow_job, f"?vertex={watched}&vtab=edges")
    table = page.get_by_role("table", name="Edges")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("from ")
    expect(rows.last).to_contain_text("to ")
    # the sink takes 250 a second and subtask; what is in front of it is queued
    expect(rows.last).to_contain_text(re.compile(r"\d+ buffers"))
    expect(page.get_by_role("group", name="Job graph").or_(page.locator(".react-flow")).first).to_contain_text("queued")


def test_a_flame_graph_shows_where_the_time_goes(site: Site, page: Page, slow_job: str) -> None:
    sink = vertex_of(site, slow_job, "slow").rpartition("/")[2]
    site.open_job(page, slow_job, f"?vertex={sink}&vtab=flamegraph")
    expect(page.get_by_text("No samples yet")).to_be_visible()
    page.get_by_role("button", name="Sample for 5 s").click()
    expect(page.get_by_role("status").filter(has_text="Sampling")).to_be_visible()
    graph = page.get_by_role("group", name="Flame graph")
    expect(graph).to_be_visible(timeout=30_000)
    graph.get_by_role("button", name=re.compile("SlowWriter.write")).first.click()
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    hot = page.get_by_role("table", name="Functions that were innermost most often")
    expect(hot.locator("tbody tr").first).to_contain_text("wait")
    page.get_by_text("On-CPU", exact=True).click()
    threads = page.get_by_role("region", name="Threads")
    threads.get_by_text(re.compile("control-read")).first.click()
    expect(threads.locator("details[open] pre")).to_contain_text("control_client.py")
    # what was sampled is there for others, too
    page.reload()
    expect(graph).to_be_visible()


def test_accumulators_are_shown_merged_and_by_subtask_and_kept_after_the_end(
    site: Site, page: Page, slow_job: str
) -> None:
    path = vertex_of(site, slow_job, "watched")
    site.cancel(slow_job)
    [records] = site.get(f"/v1/jobs/{slow_job}/accumulators")["user-task-accumulators"]
    assert (records["name"], records["type"]) == ("records", "IntCounter")
    parts = [s["user-accumulators"][0]["value"] for s in site.get(f"{path}/subtasks/accumulators")["subtasks"]]
    assert int(records["value"]) == sum(map(int, parts)) > 0
    site.open_job(page, slow_job, f"?vertex={path.rpartition('/')[2]}&vtab=accumulators")
    table = page.get_by_role("dialog").get_by_role("table", name="Accumulators")
    expect(table.get_by_role("row", name=f"records IntCounter {records['value']}")).to_be_visible()
    own = page.get_by_role("dialog").get_by_role("table", name="records of each subtask")
    expect(own.get_by_role("row")).to_have_count(3)


def test_charts_are_of_a_vertex_or_of_one_of_its_edges(site: Site, page: Page, slow_job: str) -> None:
    watched = vertex_of(site, slow_job, "watched").rpartition("/")[2]
    site.open_job(page, slow_job, f"?vertex={watched}&vtab=charts")
    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_role("img", name=re.compile("^Busy . Backpressured . Idle: Busy between"))).to_be_visible()
    # it has no event time
    expect(drawer.get_by_role("img", name=re.compile("Watermark|Event Time"))).to_have_count(0)
    drawer.get_by_role("combobox", name="Charts of").click()
    page.get_by_role("option", name=re.compile("^Edge to Sink: slow")).click()
    expect(page).to_have_url(re.compile("edge="))
    # the sink takes 250 a second and subtask; what is in front of it is queued
    expect(drawer.get_by_role("img", name=re.compile("^Queued: Queued between"))).to_be_visible()
    expect(drawer.get_by_role("img", name=re.compile("^Records per Second: Sent between"))).to_be_visible()
    page.reload()
    expect(drawer.get_by_role("img", name=re.compile("^Queued: Queued between"))).to_be_visible()

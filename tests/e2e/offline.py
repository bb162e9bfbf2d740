"""A visit to a cluster that has no network: `python -m tests.e2e.offline HOME` in a namespace with loopback only.

The demonstration runs, its page is live, and a preview shows rows. Ends with 0, or with what is wrong.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route, expect, sync_playwright

from tests.cluster.stack import running_stack
from tests.e2e.chromium import OPTIONS, find_chromium
from tests.e2e.site import DEMO, Site

TIMEOUT_MS = 90_000
#: of a block that is kept for documentation: nobody has it
ELSEWHERE = ("192.0.2.1", 80)


def has_network() -> bool:
    """Return whether anything leads away from this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # sends nothing: only a way is looked for
            probe.connect(ELSEWHERE)
        except OSError:
            return False
    return True


def visit(site: Site, page: Page) -> None:
    """Log in, look at the running demonstration, open its pipeline and preview it."""
    assert site.stack.login_link is not None
    page.goto(site.stack.login_link)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    site.open_job(page, site.wait_for_demo())
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible()
    expect(page.get_by_role("group", name="Job graph").get_by_text("HASH").first).to_be_visible()
    # fonts come from the server, too
    assert page.evaluate("async () => (await document.fonts.ready, document.fonts.check('16px \"Inter Variable\"'))")
    page.goto(f"{site.url}/ui/pipelines")
    page.get_by_role("link", name=DEMO, exact=True).click()
    page.get_by_role("group", name="Canvas").get_by_text("By airport and hour", exact=True).click()
    page.get_by_role("button", name="Preview", exact=True).click()
    panel = page.get_by_role("tabpanel", name="Preview")
    expect(panel.get_by_role("status")).to_contain_text("Finished")
    expect(panel.locator("tbody tr").first).to_be_visible()


def main(home: Path) -> None:
    assert not has_network(), "this machine has a network"
    asked_elsewhere: list[str] = []
    with running_stack(home) as stack, sync_playwright() as playwright:
        site = Site(stack)
        expect.set_options(timeout=TIMEOUT_MS)
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=list(OPTIONS))
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(TIMEOUT_MS)

        def own_only(route: Route) -> None:
            if urlsplit(route.request.url).netloc == urlsplit(site.url).netloc:
                route.continue_()
            else:
                asked_elsewhere.append(route.request.url)
                route.abort()

        context.route("**/*", own_only)
        page = context.new_page()
        page.on(
            "websocket", lambda opened: asked_elsewhere.append(opened.url) if _is_foreign(opened.url, site) else None
        )
        visit(site, page)
        chromium.close()
    assert not asked_elsewhere, asked_elsewhere


def _is_foreign(url: str, site: Site) -> bool:
    return urlsplit(url).netloc != urlsplit(site.url).netloc


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""All of it behind a reverse proxy below /tidemark, beside another application: the path is kept or stripped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cluster.stack import ROOT, Stack, running_stack
from tests.e2e.site import DEMO
from tests.support.reverse_proxy import reverse_proxy

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

BASE = "/tidemark"
COOKIES = {"tidemark-session-tidemark", "csrftoken-tidemark"}
START_MS = 40_000


@dataclass(frozen=True, slots=True)
class Proxied:
    """A stack as it is reached through the proxy."""

    stack: Stack
    url: str

    @property
    def token(self) -> str:
        return (self.stack.home / "admin-token").read_text().strip()


@pytest.fixture(scope="module")
def stack_below(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_BASE_PATH=f"{BASE}/") as running:
        yield running


@pytest.fixture(scope="module", params=["strip", "keep"])
def proxied(request: pytest.FixtureRequest, stack_below: Stack) -> Iterator[Proxied]:
    with reverse_proxy(stack_below.port, BASE, is_stripped=request.param == "strip") as port:
        yield Proxied(stack_below, f"http://127.0.0.1:{port}{BASE}")


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Page]:
    """A page of somebody who has cookies of the application beside, and may ask for nothing outside of the path."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(START_MS)
    made, problems = context.new_page(), list[str]()
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("request", lambda sent: problems.append(sent.url) if not _is_below(sent.url) else None)
    made.on("websocket", lambda opened: problems.append(opened.url) if not _is_below(opened.url) else None)
    yield made
    context.close()
    assert problems == []


def _is_below(url: str) -> bool:
    return urlsplit(url).scheme in ("data", "blob") or f"{urlsplit(url).path}/".startswith(f"{BASE}/")


def log_in(page: Page, proxied: Proxied, path: str) -> None:
    """Ask for a page, and log in on the form that it leads to."""
    neighbour = page.context.request.get(proxied.url.removesuffix(BASE))
    assert neighbour.text() == "neighbour"
    page.goto(f"{proxied.url}{path}")
    page.get_by_text("API token", exact=True).first.click()
    page.get_by_role("textbox", name="API token").fill(proxied.token)
    page.get_by_role("textbox", name="API token").press("Enter")


def test_a_user_logs_in_looks_around_and_logs_out(proxied: Proxied, visitor: Page) -> None:
    page = visitor
    log_in(page, proxied, "/ui/taskmanagers")
    expect(page.get_by_role("heading", name="Task Managers", level=1)).to_be_visible()
    expect(page).to_have_url(f"{proxied.url}/ui/taskmanagers")
    page.get_by_role("link", name="Overview").first.click()
    expect(page.get_by_role("status", name="Connection: Live")).to_be_visible()

    page.get_by_role("link", name=DEMO).first.click()
    expect(page.get_by_role("group", name="Job graph").get_by_text("HASH").first).to_be_visible()
    with page.expect_websocket() as opening:
        page.reload()
    for _ in range(3):
        opening.value.wait_for_event("framereceived", timeout=START_MS)

    page.goto(f"{proxied.url}/ui/pipelines")
    page.get_by_role("link", name=DEMO).first.click()
    expect(page.locator(".react-flow__node").first).to_be_visible()
    page.goto(f"{proxied.url}/ui/pipelines")
    # a write
    page.get_by_role("button", name="New pipeline", exact=True).click()
    expect(page.get_by_text("Begin with a source")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"{re.escape(proxied.url)}/ui/pipelines/\w+/edit"))

    ours = [cookie for cookie in page.context.cookies() if cookie.get("path") == f"{BASE}/"]
    assert {cookie["name"] for cookie in ours} == COOKIES
    page.get_by_role("button", name="User admin").click()
    page.get_by_role("menuitem", name="Log out").click()
    expect(page.get_by_role("button", name="Log in", exact=True)).to_be_visible()
    assert page.request.get(f"{proxied.url}/api/v1/cluster").status in (401, 403)


def test_the_admin_leads_to_the_login_and_back_and_acts_there(proxied: Proxied, visitor: Page) -> None:
    page = visitor
    log_in(page, proxied, "/admin/auth/user/")
    expect(page).to_have_url(f"{proxied.url}/admin/auth/user/")
    # its own style sheet has come
    header = page.locator("#header")
    expect(header).to_be_visible()
    assert header.evaluate("(element) => getComputedStyle(element).backgroundColor") != "rgba(0, 0, 0, 0)"
    page.get_by_role("link", name="Dashboard").click()
    expect(page).to_have_url(f"{proxied.url}/ui/")
    page.goto(f"{proxied.url}/admin/")
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{proxied.url}/ui/login")


def test_the_printed_link_logs_in_once(stack_below: Stack, visitor: Page) -> None:
    assert stack_below.login_link is not None
    assert stack_below.login_link.startswith(f"http://127.0.0.1:{stack_below.port}{BASE}/login/")
    with reverse_proxy(stack_below.port, BASE, is_stripped=True) as port:
        through = stack_below.login_link.replace(f":{stack_below.port}", f":{port}")
        visitor.goto(through)
        expect(visitor.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        expect(visitor).to_have_url(f"http://127.0.0.1:{port}{BASE}/ui/")
        visitor.goto(f"http://127.0.0.1:{port}{BASE}")
        expect(visitor).to_have_url(f"http://127.0.0.1:{port}{BASE}/ui/")
        # whoever is logged in is led on
        visitor.context.clear_cookies()
        visitor.goto(through)
        expect(visitor).to_have_url(f"http://127.0.0.1:{port}{BASE}/ui/login?link=expired")


def test_the_command_line_and_flinks_routes_are_below_the_path(proxied: Proxied, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
    environment |= {"TIDEMARK_URL": f"{proxied.url}/", "TIDEMARK_TOKEN": proxied.token, "PYTHONPATH": str(ROOT)}
    listed = subprocess.run(
        (sys.executable, "-m", "runtime.client.cli", "list"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert listed.returncode == 0, listed.stderr
    assert DEMO in listed.stdout
    uploaded = subprocess.run(
        (sys.executable, "-m", "runtime.client.cli", "run", str(ROOT / "examples" / "hello_events.py"), "--detached"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert uploaded.returncode == 0, uploaded.stderr

"""Fixtures: one real stack and one headless browser for all journeys; a logged-in page for each test.

At the end the stack is stopped as a user does, with Ctrl-C, and has to be gone within ten seconds, whole.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect, sync_playwright

from tests.cluster.stack import ROOT, Stack, running_stack
from tests.e2e.chromium import OPTIONS, NoChromium, find_chromium
from tests.e2e.site import Site
from tests.support.programs import survivors

TIMEOUT_MS = 15_000
STOP_TIMEOUT_S = 10.0
#: somebody may go on writing while the journeys run
_SOURCES = {".py", ".ts", ".tsx", ".css", ".md", ".txt", ".toml"}
#: what tools keep beside the sources
_NOT_OURS = {".git", ".venv", "node_modules", "__pycache__", "dist", ".hypothesis"}
_NOT_OURS |= {".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache"}
#: the browser's own lines about a server that is gone; the page tells about it in its own words
_NETWORK = ("Failed to load resource", "WebSocket connection to")


def _files_of_the_tree() -> set[Path]:
    found: set[Path] = set()
    for directory, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name not in _NOT_OURS]
        found.update(Path(directory) / name for name in files if Path(name).suffix not in _SOURCES)
    return found


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Stack and browser outlive the tests, with threads that come and go; what is left of them is looked for below."""


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if not (ROOT / "frontend" / "dist" / "index.html").is_file():
        pytest.fail("the page is not built: run `make e2e` or `make frontend`", pytrace=False)
    mark, before = uuid.uuid4().hex, _files_of_the_tree()
    home = tmp_path_factory.mktemp("home")
    with running_stack(home, TIDEMARK_SLOTS="6", TIDEMARK_TEST_MARK=mark) as running:
        yield running
        everything = running.processes()
        running.process.send_signal(signal.SIGINT)
        _, alive = psutil.wait_procs(everything, timeout=STOP_TIMEOUT_S)
        assert not alive, [process.cmdline() for process in alive]
        assert running.process.wait(1) == 0
        assert survivors(mark) == []
    left = sorted(_files_of_the_tree() - before)
    assert not left, "the stack has left files in the tree"


@pytest.fixture(scope="session")
def site(stack: Stack) -> Site:
    return Site(stack)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        binary = find_chromium()
    except NoChromium as problem:
        pytest.fail(str(problem), pytrace=False)
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=binary, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def login(site: Site, browser: Browser) -> StorageState:
    """The cookies that the one-time link gives."""
    context = browser.new_context()
    page = context.new_page()
    assert site.stack.login_link is not None
    page.goto(site.stack.login_link)
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible(timeout=TIMEOUT_MS)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def context(browser: Browser, login: StorageState) -> Iterator[BrowserContext]:
    made = browser.new_context(storage_state=login, viewport={"width": 1440, "height": 900})
    made.set_default_timeout(TIMEOUT_MS)
    yield made
    made.close()


@pytest.fixture
def page(request: pytest.FixtureRequest, context: BrowserContext, tmp_path: Path) -> Iterator[Page]:
    """A page that may not throw or complain on its console; a failing test leaves a picture of it."""
    made, problems = context.new_page(), list[str]()
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    failed_before = request.session.testsfailed
    yield made
    if request.session.testsfailed > failed_before:
        made.screenshot(path=tmp_path / "failure.png", full_page=True)
        print(f"the page as it was: {tmp_path / 'failure.png'}")
    assert not [problem for problem in problems if not problem.startswith(_NETWORK)]

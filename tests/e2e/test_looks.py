"""Every page, from a phone to a large screen, in both themes, with its own texts and with longer ones.

Nothing overlaps, sticks out or is cut off, and axe-core finds nothing. A page is opened once for all windows.
TIDEMARK_SCREENSHOTS names a directory for pictures of all of them, to be looked at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.cluster.stack import ROOT
from tests.e2e.site import HELLO, PROGRAMS, Site, choose_action, confirm_cancel, job_state, upload
from tests.e2e.test_editor import add, new_pipeline
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
LAYOUT = Path(__file__).with_name("layout.js")
LONGER = Path(__file__).with_name("longer.js")
PSEUDO_LOCALE = ROOT / "frontend" / "public" / "locales" / "en-XA.js"
PHONE = 390
WIDE = 1440
HEIGHTS = {WIDE: 900, 900: 1024, PHONE: 844}
#: where all of axe is asked, which is slow: each window, both themes, and longer texts where they have least room
AXE_AT = {
    (WIDE, "light", "plain"),
    (900, "light", "plain"),
    (PHONE, "dark", "plain"),
    (PHONE, "light", "longer"),
    (PHONE, "light", "pseudo"),
}
#: what differs by the theme alone
CONTRAST_AT = {(WIDE, "dark", "plain")}
START_MS = 40_000
#: a child with the engine
PREVIEW_MS = 90_000
#: a page that is as long as the list of all jobs of the journeys before is painted without a graphics card
PICTURE_MS = 90_000
#: it cannot be broken at a space
LONG_NAME = "endless-numbers-" * 16
#: a name and its label are made longer each for itself: two halves of a word are more than the whole
NOT_OF_LONGER_TEXTS = {"label-content-name-mismatch"}
#: of an open menu: Mantine keeps a place for the focus in it, and opens it outside of all landmarks
NOT_IN_OUR_HANDS = {menu: {"aria-required-children", "region"} for menu in ("user-menu", "actions-menu")}


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs in the states that pages differ by."""

    running: str
    failed: str
    waiting: str


@pytest.fixture(scope="module")
def jobs(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    running = site.wait_for_demo()
    failed = site.run(PROGRAMS / "failing.py")
    site.wait_for_state(failed, "FAILED")
    program = tmp_path_factory.mktemp("programs") / "unbounded.py"
    program.write_text((PROGRAMS / "unbounded.py").read_text().replace("endless numbers", LONG_NAME))
    waiting = site.run(program, parallelism=6)
    return Jobs(running, failed, waiting)


@pytest.fixture(scope="module", autouse=True)
def nothing_waits_on(site: Site, jobs: Jobs) -> Any:
    yield
    site.cancel(jobs.waiting)


def overview(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/")
    expect(page.get_by_role("table", name="Completed Jobs")).to_be_visible()


def submit(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/submit")
    expect(page.get_by_text("Choose a program").first).to_be_visible()
    expect(page.get_by_text("failing.py").first).to_be_visible()


def plan(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/submit")
    upload(page, HELLO)
    page.get_by_role("button", name="Show plan").click()
    expect(page.get_by_role("group", name="Operators").get_by_text("Source: views")).to_be_visible(timeout=START_MS)
    expect(page.get_by_role("textbox", name="Text of")).to_be_visible()


def plan_of_vertices(site: Site, jobs: Jobs, page: Page) -> None:
    plan(site, jobs, page)
    page.get_by_text("Job vertices").click()
    expect(page.get_by_role("group", name="Plan").get_by_text("Source: views")).to_be_visible()


def job(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running)
    expect(page.get_by_role("group", name="Job graph").get_by_text("HASH").first).to_be_visible()


def waiting_job(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.waiting)
    expect(page.get_by_text("Waiting: needs 6 slots")).to_be_visible()
    expect(page.get_by_role("group", name="Job graph").get_by_role("button", name="Source: numbers")).to_be_visible()


def vertex(tab: str) -> Callable[[Site, Jobs, Page], None]:
    def open_it(site: Site, jobs: Jobs, page: Page) -> None:
        vertex_id = site.get(f"/jobs/{jobs.running}")["vertices"][1]["id"]
        site.open_job(page, jobs.running, f"?vertex={vertex_id}&vtab={tab}")
        expect(page.get_by_role("dialog").get_by_role("tabpanel")).to_be_visible()
        expect(page.get_by_role("group", name="Job graph").get_by_text("HASH").first).to_be_visible()

    return open_it


def no_exceptions(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.waiting, "?tab=exceptions")
    expect(page.get_by_text("No exceptions")).to_be_visible()


def exceptions(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.failed, "?tab=exceptions")
    expect(page.get_by_role("region", name="Root Exception")).to_be_visible()


def failed_job(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.failed)
    expect(job_state(page, "FAILED")).to_be_visible()
    expect(page.get_by_role("group", name="Job graph").get_by_role("button", name="Source: numbers")).to_be_visible()


def logs(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running, "?tab=logs")
    # of the output, or of the log if the slot had something to say before
    expect(page.get_by_role("log")).to_have_text(re.compile(r"\w"))


def configuration(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running, "?tab=configuration")
    expect(page.get_by_role("cell", name="restart-strategy.type")).to_be_visible()


def cancel_dialog(site: Site, jobs: Jobs, page: Page) -> None:
    job(site, jobs, page)
    confirm_cancel(page)


def cancel_dialog_of_a_long_name(site: Site, jobs: Jobs, page: Page) -> None:
    waiting_job(site, jobs, page)
    expect(confirm_cancel(page)).to_contain_text(LONG_NAME)


def checkpoints(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running, "?tab=checkpoints")
    history = page.get_by_role("table", name="Checkpoints", exact=True)
    history.get_by_role("button").first.click()
    page.get_by_role("table", name="Vertices of").get_by_role("button").nth(1).click()
    expect(page.get_by_role("table", name="Subtasks of").get_by_role("row").nth(1)).to_be_visible()


def no_checkpoints(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.waiting, "?tab=checkpoints")
    expect(page.get_by_text("No checkpoint yet")).to_be_visible()


def state(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running, "?tab=state")
    panel = page.get_by_role("tabpanel", name="State")
    panel.get_by_role("button", name="Show Some Keys").click()
    panel.get_by_role("region", name="Some Keys").get_by_role("listitem").get_by_role("button").first.click()
    expect(panel.get_by_role("table").first).to_be_visible(timeout=START_MS)


def one_log(site: Site, jobs: Jobs, page: Page) -> None:
    # a failing job has one with an error in it
    files = site.get(f"/api/v1/jobs/{jobs.failed}/logs")["files"]
    site.open_job(page, jobs.failed, f"?{urlencode({'tab': 'logs', 'log': files[0]['name']})}")
    expect(page.get_by_role("combobox", name="Log file")).to_be_visible()
    expect(page.get_by_role("button", name="Download the whole file")).to_be_visible()


def peek(site: Site, jobs: Jobs, page: Page) -> None:
    vertex("peek")(site, jobs, page)
    page.get_by_role("dialog").get_by_role("button", name="Peek", exact=True).click()
    expect(page.get_by_role("dialog").locator("tbody tr").first).to_be_visible(timeout=START_MS)
    # or what is measured would move
    page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()


def flame_graph(site: Site, jobs: Jobs, page: Page) -> None:
    vertex("flamegraph")(site, jobs, page)
    page.get_by_role("dialog").get_by_role("button", name="Sample").click()
    expect(page.get_by_role("dialog").get_by_role("radiogroup", name="Samples")).to_be_visible(timeout=START_MS)


def drawn_picture(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running, "?picture=pipeline")
    expect(page.get_by_role("region", name="Job graph").locator(".react-flow__node").first).to_be_visible()
    expect(page.get_by_role("region", name="Job graph")).to_contain_text("Received", timeout=START_MS)


def command_palette(site: Site, jobs: Jobs, page: Page) -> None:
    overview(site, jobs, page)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("listbox", name="Commands").get_by_role("option").first).to_be_visible()


def savepoint_dialog(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running)
    choose_action(page, "Take a savepoint")
    expect(page.get_by_role("dialog", name="Take a savepoint")).to_be_visible()


def stop_dialog(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running)
    page.get_by_role("button", name="Stop with savepoint").click()
    expect(page.get_by_role("dialog", name="Stop this job with a savepoint?")).to_be_visible()


def rescale_dialog(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running)
    choose_action(page, "Rescale")
    expect(page.get_by_role("dialog", name="Rescale this job")).to_be_visible()


def run_again_dialog(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.failed)
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_role("dialog", name="Run this job again").get_by_label("No state")).to_be_visible()


def submit_again(site: Site, jobs: Jobs, page: Page) -> None:
    run_again_dialog(site, jobs, page)
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    page.get_by_label("Savepoint Path").fill("file:///somewhere/savepoint-1")
    expect(page.get_by_label("Allow Non Restored State")).to_be_visible()


def actions_menu(site: Site, jobs: Jobs, page: Page) -> None:
    site.open_job(page, jobs.running)
    page.get_by_role("button", name="Actions").click()
    expect(page.get_by_role("menuitem", name="Rescale")).to_be_visible()


def user_menu(site: Site, jobs: Jobs, page: Page) -> None:
    overview(site, jobs, page)
    page.get_by_role("button", name="User admin").click()
    expect(page.get_by_role("menuitem", name="Log out")).to_be_visible()


def jobmanagers(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/jobmanagers")
    expect(page.get_by_role("table", name="Job Managers").get_by_role("row").filter(has_text="LEADER")).to_be_visible()


def taskmanagers(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/taskmanagers")
    expect(page.get_by_role("table", name="Task Managers")).to_be_visible()


def taskmanager(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/taskmanagers")
    page.get_by_role("table", name="Task Managers").get_by_role("row").filter(has_text="REGISTERED").get_by_role(
        "link"
    ).click()
    expect(page.get_by_role("table", name="Slots in use")).to_be_visible()


def savepoints(site: Site, jobs: Jobs, page: Page) -> None:
    client = site.stack.client
    if not site.get("/api/v1/savepoints")["savepoints"]:
        client.trigger_savepoint(jobs.running, None, "CANONICAL")
    wait_until(lambda: site.get("/api/v1/savepoints")["savepoints"], 60, "there is a savepoint")
    page.goto(f"{site.url}/ui/savepoints")
    expect(page.get_by_role("table", name="Savepoints").get_by_role("button", name="Dispose").first).to_be_visible()
    page.get_by_role("button", name="Contents").first.click()
    expect(page.get_by_role("table", name="Contents of")).to_be_visible()


def restore(site: Site, jobs: Jobs, page: Page) -> None:
    savepoints(site, jobs, page)
    page.get_by_role("button", name="Restore").first.click()
    expect(page.get_by_label("Savepoint Path")).to_be_visible()


def dispose_dialog(site: Site, jobs: Jobs, page: Page) -> None:
    savepoints(site, jobs, page)
    page.get_by_role("button", name="Dispose").first.click()
    expect(page.get_by_role("dialog", name="Dispose of this savepoint?")).to_be_visible()


def pipelines(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/pipelines")
    expect(page.get_by_role("link", name="Flights live").first).to_be_visible()


def editor(site: Site, jobs: Jobs, page: Page) -> None:
    pipelines(site, jobs, page)
    page.get_by_role("link", name="Flights live").first.click()
    expect(page.locator(".react-flow__node").first).to_be_visible(timeout=START_MS)


def editor_node(site: Site, jobs: Jobs, page: Page) -> None:
    editor(site, jobs, page)
    page.locator(".react-flow__node").first.click()
    expect(page.get_by_role("textbox", name="Name of the node")).to_be_visible()


def preview_dock(site: Site, jobs: Jobs, page: Page) -> None:
    editor_node(site, jobs, page)
    page.get_by_role("button", name="Preview", exact=True).click()
    panel = page.get_by_role("tabpanel", name="Preview")
    # from the button, whose tooltip is above all
    panel.hover()
    expect(panel.get_by_role("status")).to_contain_text("Finished", timeout=PREVIEW_MS)
    expect(panel.locator("tbody tr").first).to_be_visible()


def deploy_dialog(site: Site, jobs: Jobs, page: Page) -> None:
    editor(site, jobs, page)
    page.get_by_role("button", name=re.compile("^(Deploy|Redeploy)$")).click()
    expect(page.get_by_role("dialog", name=re.compile("eploy$"))).to_be_visible()


def compare(site: Site, jobs: Jobs, page: Page) -> None:
    new_pipeline(site, page)
    add(page, "nexmark", "Nexmark auction")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Versions").click()
    page.get_by_role("list", name="Versions").get_by_role(
        "button", name=re.compile("^Actions of version")
    ).first.click()
    page.get_by_role("menuitem", name="Compare with what is drawn").click()
    expect(page.get_by_role("complementary", name="What differs")).to_be_visible()


def template_picker(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/pipelines?template=")
    expect(page.get_by_role("dialog").get_by_role("button", name="Word trends")).to_be_visible()


def connections(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/connections")
    expect(page.get_by_text("No connection yet")).to_be_visible()


def access(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/access")
    expect(page.get_by_label("Role of admin")).to_be_visible()


def audit(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/audit")
    expect(page.get_by_role("table").get_by_role("row").nth(1)).to_be_visible()


def not_found(site: Site, jobs: Jobs, page: Page) -> None:
    page.goto(f"{site.url}/ui/jobs/{'0' * 32}")
    expect(page.get_by_role("heading", name="Job not found")).to_be_visible()


def login(site: Site, jobs: Jobs, page: Page) -> None:
    page.context.clear_cookies()
    page.goto(f"{site.url}/ui/login?link=expired")
    expect(page.get_by_role("button", name="Log in", exact=True)).to_be_visible()


PAGES: dict[str, Callable[[Site, Jobs, Page], None]] = {
    "overview": overview,
    "submit": submit,
    "plan": plan,
    "plan-vertices": plan_of_vertices,
    "job": job,
    "job-waiting": waiting_job,
    "job-failed": failed_job,
    "vertex-detail": vertex("detail"),
    "vertex-subtasks": vertex("subtasks"),
    "vertex-watermarks": vertex("watermarks"),
    "vertex-backpressure": vertex("backpressure"),
    "vertex-charts": vertex("charts"),
    "vertex-metrics": vertex("metrics"),
    "vertex-accumulators": vertex("accumulators"),
    "vertex-edges": vertex("edges"),
    "vertex-peek": peek,
    "vertex-flamegraph": flame_graph,
    "job-drawn": drawn_picture,
    "state": state,
    "exceptions": exceptions,
    "exceptions-none": no_exceptions,
    "logs": logs,
    "one-log": one_log,
    "command-palette": command_palette,
    "configuration": configuration,
    "cancel": cancel_dialog,
    "cancel-long-name": cancel_dialog_of_a_long_name,
    "checkpoints": checkpoints,
    "checkpoints-none": no_checkpoints,
    "savepoint": savepoint_dialog,
    "stop": stop_dialog,
    "rescale": rescale_dialog,
    "run-again": run_again_dialog,
    "submit-again": submit_again,
    "actions-menu": actions_menu,
    "user-menu": user_menu,
    "jobmanagers": jobmanagers,
    "taskmanagers": taskmanagers,
    "taskmanager": taskmanager,
    "savepoints": savepoints,
    "restore": restore,
    "dispose": dispose_dialog,
    "pipelines": pipelines,
    "template-picker": template_picker,
    "editor": editor,
    "editor-node": editor_node,
    "preview": preview_dock,
    "deploy": deploy_dialog,
    "compare": compare,
    "connections": connections,
    "access": access,
    "audit": audit,
    "not-found": not_found,
    "login": login,
}


def hold_back(page: Page, path: str) -> list[Route]:
    """Leave requests of a path without an answer, and the live connection open without a document.

    Returns:
        The requests that wait; whoever holds them back ends them.
    """
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile(rf"{path}(\?|$)"), hold)
    page.route_web_socket(re.compile("/ws/live"), lambda socket: None)
    return held


def starting(site: Site, jobs: Jobs, page: Page) -> list[Route]:
    held = hold_back(page, "/api/v1/session")
    page.goto(f"{site.url}/ui/")
    expect(page.get_by_role("status", name="Loading")).to_be_visible()
    expect(page.get_by_role("navigation")).to_have_count(0)
    return held


def overview_loading(site: Site, jobs: Jobs, page: Page) -> list[Route]:
    held = hold_back(page, "/api/v1/cluster(/topic)?")
    page.goto(f"{site.url}/ui/")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_be_visible()
    return held


def job_loading(site: Site, jobs: Jobs, page: Page) -> list[Route]:
    held = hold_back(page, "/topic")
    page.goto(f"{site.url}/ui/jobs/{jobs.running}")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_be_visible()
    return held


def editor_loading(site: Site, jobs: Jobs, page: Page) -> list[Route]:
    pipelines(site, jobs, page)
    held = hold_back(page, r"/pipelines/[0-9a-f]{32}")
    page.get_by_role("link", name="Flights live").first.click()
    expect(page.get_by_role("status", name="Opening the pipeline")).to_be_visible()
    return held


#: what is shown until the server has answered
LOADING: dict[str, Callable[[Site, Jobs, Page], list[Route]]] = {
    "starting": starting,
    "overview-loading": overview_loading,
    "job-loading": job_loading,
    "editor-loading": editor_loading,
}


def violations(page: Page, name: str, rules: Sequence[str] = ()) -> list[str]:
    """Return axe-core's findings, one line each; its script runs without violating the page's policy."""
    assert AXE.is_file(), f"{AXE} is missing: run `npm ci` in frontend"
    page.evaluate(AXE.read_text(encoding="utf-8"))
    only = {"runOnly": list(rules)} if rules else {}
    options = {"resultTypes": ["violations"], **only}
    found = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
    ours = [each for each in found if each["id"] not in NOT_IN_OUR_HANDS.get(name, set())]
    return [
        f"{each['id']}: {node['any'][0]['message'] if node['any'] else each['help']}: {node['html'][:200]}"
        for each in ours
        for node in each["nodes"]
    ]


def problems_of(page: Page, name: str, directory: Path) -> list[str]:
    """Return what is wrong with the page in any window, theme and length of texts; each with a picture."""
    problems = problems_in_windows(page, name, "plain", directory)
    page.evaluate(LONGER.read_text(encoding="utf-8"))
    return problems + problems_in_windows(page, name, "longer", directory)


def problems_in_windows(page: Page, name: str, texts: str, directory: Path) -> list[str]:
    """Return what is wrong with the page as it is, in any window and theme."""
    problems = []
    layout, keeps_all = LAYOUT.read_text(encoding="utf-8"), bool(os.environ.get("TIDEMARK_SCREENSHOTS"))
    for width, height in HEIGHTS.items():
        page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", theme)
            found = list(page.evaluate(layout))
            if (width, theme, texts) in AXE_AT:
                excused = NOT_OF_LONGER_TEXTS if texts == "longer" else set()
                found += [line for line in violations(page, name) if line.split(":")[0] not in excused]
            elif (width, theme, texts) in CONTRAST_AT:
                found += violations(page, name, ["color-contrast"])
            if found or keeps_all:
                picture = directory / f"{name}-{width}-{theme}-{texts}.png"
                page.screenshot(path=picture, full_page=True, animations="disabled", timeout=PICTURE_MS)
            problems += [f"{width} px, {theme}, {texts}: {line}" for line in found]
    return problems


def pictures(otherwise: Path) -> Path:
    return Path(os.environ.get("TIDEMARK_SCREENSHOTS") or otherwise)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_in_both_themes_and_shuts_nobody_out(
    site: Site, jobs: Jobs, context: BrowserContext, page: Page, tmp_path: Path, name: str
) -> None:
    # a picture of a moving page is of no use, and axe measures contrasts
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    PAGES[name](site, jobs, page)
    page.wait_for_load_state("networkidle")
    problems = problems_of(page, name, pictures(tmp_path))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", LOADING)
def test_a_page_that_waits_for_its_data_fits_its_window_and_shuts_nobody_out(
    site: Site, jobs: Jobs, page: Page, tmp_path: Path, name: str
) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    held = LOADING[name](site, jobs, page)
    problems = problems_of(page, name, pictures(tmp_path))
    # its name is longer by now
    expect(page.locator("[role='status'][aria-label]:not([aria-label^='C'])").first).to_be_visible()
    for route in tuple(held):
        route.abort()
    assert not problems, "\n".join(problems)


#: what an address alone opens; JOB and VERTEX stand for ids
ROUTES = {
    "overview": "",
    "submit": "submit",
    "pipelines": "pipelines",
    "connections": "connections",
    "savepoints": "savepoints",
    "jobmanagers": "jobmanagers",
    "taskmanagers": "taskmanagers",
    "access": "access",
    "audit": "audit",
    "not-found": "nowhere",
    **{
        f"job-{tab}": f"jobs/JOB?tab={tab}"
        for tab in ("overview", "checkpoints", "state", "exceptions", "configuration")
    },
    **{f"vertex-{tab}": f"jobs/JOB?vertex=VERTEX&vtab={tab}" for tab in ("detail", "subtasks", "edges", "watermarks")},
}


@pytest.mark.parametrize("name", ROUTES)
def test_a_page_has_room_for_another_language(site: Site, jobs: Jobs, page: Page, name: str, tmp_path: Path) -> None:
    translated = json.loads(PSEUDO_LOCALE.read_text(encoding="utf-8").partition("=")[2].rstrip().removesuffix(";"))
    page.context.add_init_script("localStorage.setItem('tidemark.locale', 'en-XA')")
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    vertex_id = site.get(f"/jobs/{jobs.running}")["vertices"][1]["id"]
    page.goto(f"{site.url}/ui/{ROUTES[name].replace('JOB', jobs.running).replace('VERTEX', vertex_id)}")
    expect(page.locator("html")).to_have_attribute("lang", "en-XA")
    navigation = page.get_by_role("navigation", name=translated["Main"], exact=True, include_hidden=True)
    expect(navigation).to_contain_text(translated["Savepoints"])
    expect(page.get_by_role("status", name=translated["Loading"], exact=True)).to_have_count(0, timeout=START_MS)
    page.wait_for_load_state("networkidle")
    problems = problems_in_windows(page, f"pseudo-{name}", "pseudo", pictures(tmp_path))
    assert not problems, "\n".join(problems)


def test_a_phone_shows_name_and_state_of_a_job_at_once(site: Site, jobs: Jobs, page: Page) -> None:
    page.set_viewport_size({"width": PHONE, "height": HEIGHTS[PHONE]})
    site.open_job(page, jobs.running)
    heading, badge = page.get_by_role("heading", level=1), job_state(page, "RUNNING")
    for seen in (heading, badge):
        expect(seen).to_be_in_viewport(ratio=1)
        # nothing lies on it
        assert seen.evaluate(
            """(element) => {
                const box = element.getBoundingClientRect()
                const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
                return element.contains(top) || top.contains(element)
            }"""
        )


def test_a_phone_has_the_run_form_within_two_screens_however_many_programs_there_are(
    site: Site, jobs: Jobs, page: Page, tmp_path: Path
) -> None:
    for number in range(12):
        program = tmp_path / f"program_{number}.py"
        program.write_text(f"# {number}\n{HELLO.read_text()}")
        site.stack.client.upload(program)
    page.set_viewport_size({"width": PHONE, "height": HEIGHTS[PHONE]})
    page.goto(f"{site.url}/ui/submit")
    page.get_by_role("button", name="program_7.py", exact=False).first.click()
    form = page.get_by_role("region", name="Run program_7.py")
    expect(form).to_be_visible()
    box = form.bounding_box()
    assert box is not None
    assert box["y"] + page.evaluate("window.scrollY") < 2 * HEIGHTS[PHONE]

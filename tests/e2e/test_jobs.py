"""Jobs from the page: uploaded, previewed, run, cancelled, finished, failed, and kept waiting for slots."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect

from tests.cluster.log_reading import read_log
from tests.e2e.site import (
    HELLO,
    PROGRAMS,
    Site,
    cell,
    confirm_cancel,
    job_state,
    notices,
    shown_job,
    upload,
    vertex_row,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

#: a start takes Spark about two seconds, on a busy machine some more
START_MS = 40_000
ROWS = 12_345


class Sent:
    """Requests of one kind that a page has sent."""

    def __init__(self, page: Page, method: str, path: str) -> None:
        self._method, self._path = method, re.compile(path)
        self.urls: list[str] = []
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        if request.method == self._method and self._path.search(request.url):
            self.urls.append(request.url)


def test_a_program_is_uploaded_previewed_run_once_and_cancelled_once(site: Site, page: Page) -> None:
    before = site.job_ids("endless numbers")
    runs, cancels = Sent(page, "POST", "/run$"), Sent(page, "PATCH", "/jobs/[0-9a-f]{32}")
    page.goto(f"{site.url}/ui/submit")
    upload(page, PROGRAMS / "unbounded.py")
    page.get_by_role("button", name="Show plan").click()
    operators = page.get_by_role("group", name="Operators")
    operators.get_by_title("label", exact=True).click(timeout=START_MS)
    # beside the operator is its line of the program
    expect(page.get_by_role("region", name="label")).to_contain_text("Defined atunbounded.py:10")
    expect(page.get_by_role("textbox", name="Text of unbounded.py")).to_contain_text('.name("label")')
    page.get_by_text("Job vertices").click()
    expect(page.get_by_role("group", name="Plan").get_by_text("Source: numbers")).to_be_visible()
    assert site.job_ids("endless numbers") == before, "a preview runs nothing"

    page.get_by_role("button", name="Run", exact=True).dblclick()
    expect(page.get_by_role("heading", name="endless numbers")).to_be_visible(timeout=START_MS)
    expect(job_state(page, "RUNNING")).to_be_visible(timeout=START_MS)
    expect(cell(vertex_row(page, "Source: numbers"), 3)).to_have_text(re.compile(r"[1-9].*/s"))
    job_id = shown_job(page)
    assert site.job_ids("endless numbers") == [job_id, *before]
    assert len(runs.urls) == 1

    dialog = confirm_cancel(page)
    dialog.get_by_role("button", name="Keep running").click()
    expect(dialog).to_have_count(0)
    assert site.state(job_id) == "RUNNING"
    confirm_cancel(page).get_by_role("button", name="Cancel job").dblclick()
    expect(job_state(page, "CANCELED")).to_be_visible()
    expect(page.get_by_role("button", name="Actions", exact=True)).to_have_count(0)
    assert len(cancels.urls) == 1
    assert site.state(job_id) == "CANCELED"

    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link", name="Jobs").click()
    row = page.get_by_role("table", name="Completed Jobs").get_by_role("row").filter(has_text=job_id[:12])
    expect(row).to_contain_text("CANCELED")


def test_a_bounded_job_counts_all_of_its_rows_in_rest_and_on_the_page(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/submit")
    upload(page, PROGRAMS / "bounded.py")
    page.get_by_label("Parallelism").fill("2")
    page.get_by_label("Program Arguments").fill(f"--rows {ROWS}")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(job_state(page, "FINISHED")).to_be_visible(timeout=START_MS)
    for vertex in ("Source: numbers", "label -> Sink"):
        expect(cell(vertex_row(page, vertex), 3)).to_have_text(re.compile(f"^{ROWS:,}"))
        expect(cell(vertex_row(page, vertex), 4)).to_have_text(re.compile(f"^{ROWS:,}"))
    job_id = shown_job(page)
    source, sink = (vertex["metrics"] for vertex in site.get(f"/jobs/{job_id}")["vertices"])
    assert (source["read-records"], source["write-records"]) == (ROWS, ROWS)
    assert (sink["read-records"], sink["write-records"]) == (ROWS, ROWS)
    directory = site.stack.home / "logs" / "jobs" / job_id / "attempt-0"
    printed = [read_log(directory / f"slot-{slot}.out") for slot in range(2)]
    lines = sorted(line.rpartition(" ")[2] for text in printed for line in text.splitlines())
    assert lines == sorted(map(str, range(ROWS)))


#: both modules could start the job
WATCH = """
import warnings
from gauges import label
from runtime.datastream import StreamExecutionEnvironment

print("three gauges")
warnings.warn("the tide is high")
env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3])
numbers.key_by(lambda n: n % 2).map(label).uid("label").print()
numbers.key_by(lambda n: n % 2).reduce(max).print()
env.execute("watched gauges")
"""
GAUGES = 'def label(number):\n    return f"gauge {number}"\n'


def write_modules(directory: Path) -> list[Path]:
    directory.mkdir()
    texts = {"watch.py": WATCH, "gauges.py": GAUGES}
    for name, text in texts.items():
        (directory / name).write_text(text)
    return [directory / name for name in texts]


def test_modules_picked_together_run_from_the_one_that_is_chosen_and_their_program_is_heard(
    site: Site, page: Page, tmp_path: Path
) -> None:
    page.goto(f"{site.url}/ui/submit")
    page.get_by_label("Choose a program").set_input_files(write_modules(tmp_path / "modules"))
    dialog = page.get_by_role("dialog", name="Which module starts the job?")
    expect(dialog.get_by_role("button", name="Upload")).to_be_disabled()
    dialog.get_by_role("combobox", name="Entry Module").click()
    page.get_by_role("option", name="watch").click()
    dialog.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", name="Run program.zip")).to_be_visible()
    expect(page.get_by_label("Entry Module")).to_have_value("watch")
    page.get_by_role("button", name="Run", exact=True).click()
    said = page.get_by_role("region", name="Output of the program")
    expect(said.get_by_label("Printed by the program")).to_contain_text("three gauges", timeout=START_MS)
    expect(said.get_by_text("uid")).to_be_visible()
    expect(job_state(page, "FINISHED")).to_be_visible(timeout=START_MS)
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_role("log")).to_contain_text("gauge 2")


def test_a_directory_is_uploaded_as_one_program(site: Site, page: Page, tmp_path: Path) -> None:
    write_modules(tmp_path / "watch")
    (tmp_path / "watch" / "__pycache__").mkdir()
    (tmp_path / "watch" / "__pycache__" / "gauges.pyc").write_bytes(b"old")
    page.goto(f"{site.url}/ui/submit")
    page.get_by_label("choose a directory").set_input_files(tmp_path / "watch")
    # the module that is called as its directory starts the job
    expect(page.get_by_role("heading", name="Run watch.zip")).to_be_visible()
    expect(page.get_by_label("Entry Module")).to_have_value("watch")
    page.get_by_role("button", name="Show plan").click()
    expect(page.get_by_role("heading", name="Plan of watched gauges")).to_be_visible(timeout=START_MS)


def test_a_search_goes_to_a_match_far_in_front_of_what_is_shown(site: Site, page: Page) -> None:
    rows = 60_000
    job_id = site.run(PROGRAMS / "bounded.py", "--rows", str(rows), parallelism=1)
    site.wait_for_state(job_id, "FINISHED")
    site.open_job(page, job_id, "?tab=logs")
    page.get_by_role("combobox", name="Log file").click()
    page.get_by_role("option", name="output").click()
    log = page.get_by_role("log")
    expect(page.get_by_text(re.compile(rf"^Lines (?!1 )[\d,]+ to {rows:,} of {rows:,}$"))).to_be_visible()
    page.get_by_role("textbox", name="Search in the log").fill("number 777")
    # 777 and 7770 to 7779, all of them far above the part that was loaded
    expect(page.get_by_role("status").filter(has_text="1 of 11")).to_be_visible()
    expect(log.locator("[data-current]")).to_have_text(re.compile("number 777$"))
    page.get_by_role("button", name="Next match").click()
    expect(log.locator("[data-current]")).to_have_text(re.compile("number 7770$"))


def test_the_example_of_the_documentation_runs_from_the_page(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/ui/submit")
    upload(page, HELLO)
    page.get_by_label("Program Arguments").fill("--count 1000")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(job_state(page, "FINISHED")).to_be_visible(timeout=START_MS)
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_role("log")).to_contain_text("(home,")


def test_a_failing_job_names_the_operator_the_record_and_the_users_line(site: Site, page: Page) -> None:
    program = PROGRAMS / "failing.py"
    line = next(n for n, text in enumerate(program.read_text().splitlines(), 1) if "raise" in text)
    site.open_job(page, site.run(program))
    expect(job_state(page, "FAILED")).to_be_visible(timeout=START_MS)
    # one line says why, on the tab that opens first
    expect(page.get_by_role("tab", name="Overview", selected=True)).to_be_visible()
    expect(notices(page)).to_have_count(1)
    expect(notices(page)).to_have_text(re.compile(r"^Failed: .*ValueError: no tide has the number 7.*not restarted\."))
    expect(notices(page).get_by_role("link", name="Show exceptions")).to_be_visible()
    page.get_by_role("tab", name="Exceptions 1").click()
    root = page.get_by_role("region", name="Root Exception")
    expect(root).to_contain_text("operator 'check tides'")
    expect(root).to_contain_text("failed on record 7")
    expect(root).to_contain_text("ValueError: no tide has the number 7")
    # not where the server keeps it
    expect(root).to_contain_text(f"at failing.py:{line}: raise ValueError")
    expect(root.get_by_label("Stack trace")).to_contain_text(re.compile(rf'failing\.py", line {line}, in check'))

    root.get_by_role("link", name="logs of this attempt").click()
    expect(page.get_by_role("log")).to_contain_text("looking at 7")
    page.get_by_role("combobox", name="Log file").click()
    page.get_by_role("option", name="output").click()
    expect(page.get_by_role("log")).to_contain_text("checked 7")


def test_a_restarting_job_says_why_and_when_it_is_tried_again(site: Site, page: Page) -> None:
    strategy = "restart-strategy.fixed-delay"
    configuration = {"restart-strategy.type": "fixed-delay", f"{strategy}.attempts": "3", f"{strategy}.delay": "30 min"}
    job_id = site.run(PROGRAMS / "failing.py", configuration=configuration)
    site.open_job(page, job_id)
    expect(job_state(page, "RESTARTING")).to_be_visible(timeout=START_MS)
    expect(page.get_by_role("tab", name="Overview", selected=True)).to_be_visible()
    expect(notices(page)).to_have_count(1)
    expect(notices(page)).to_have_text(
        re.compile(r"^Restarting: The next attempt is in [23]\d.*ValueError: no tide has the number 7")
    )
    notices(page).get_by_role("link", name="Show exceptions").click()
    expect(page.get_by_role("region", name="Root Exception")).to_contain_text("failed on record 7")
    site.cancel(job_id)
    expect(job_state(page, "CANCELED")).to_be_visible()


def test_a_program_with_an_error_is_refused_with_its_line(site: Site, page: Page, tmp_path: Path) -> None:
    program = tmp_path / "typo.py"
    program.write_text("import runtime\n\nprint(sorce)\n")
    page.goto(f"{site.url}/ui/submit")
    upload(page, program)
    page.get_by_role("button", name="Show plan").click()
    refusal = page.get_by_role("alert").filter(has_text="refused")
    expect(refusal).to_contain_text("line 3", timeout=START_MS)
    expect(refusal).to_contain_text("NameError: name 'sorce' is not defined")


def test_a_file_that_is_no_program_is_refused(site: Site, page: Page, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a program")
    page.goto(f"{site.url}/ui/submit")
    page.get_by_label("Choose a program").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"\.py"))


def test_a_job_without_enough_slots_says_what_it_waits_for_and_can_be_cancelled(site: Site, page: Page) -> None:
    site.wait_for_demo()
    job_id = site.run(PROGRAMS / "unbounded.py", parallelism=6)
    site.open_job(page, job_id)
    expect(page.get_by_role("status").filter(has_text="Waiting")).to_have_text("Waiting: needs 6 slots, 4 are free")
    expect(job_state(page, "CREATED")).to_be_visible()
    page.get_by_role("link", name="Overview", exact=True).click()
    row = page.get_by_role("table", name="Running Jobs").get_by_role("row").filter(has_text="endless numbers")
    expect(row).to_contain_text("Waiting: needs 6 slots, 4 are free")
    row.get_by_role("link").click()
    confirm_cancel(page).get_by_role("button", name="Cancel job").click()
    expect(job_state(page, "CANCELED")).to_be_visible()


def test_slots_are_given_back_when_a_job_has_ended(site: Site, page: Page) -> None:
    site.wait_for_demo()
    page.goto(f"{site.url}/ui/")
    card = page.get_by_role("group", name="Available Task Slots")
    expect(card).to_contain_text("4 of 6")
    job_id = site.run(PROGRAMS / "unbounded.py", parallelism=3)
    expect(card).to_contain_text("1 of 6", timeout=START_MS)
    site.cancel(job_id)
    expect(card).to_contain_text("4 of 6")


def test_back_leads_to_where_the_overview_was_left_and_a_new_page_begins_at_its_top(site: Site, page: Page) -> None:
    job_id = site.wait_for_demo()
    page.set_viewport_size({"width": 390, "height": 400})
    page.goto(f"{site.url}/ui/")
    link = page.locator(f'a[href*="{job_id}"]').first
    link.scroll_into_view_if_needed()
    link.evaluate("link => window.scrollBy(0, link.getBoundingClientRect().top - 70)")
    left = page.evaluate("window.scrollY")
    assert left > 0
    link.click()
    checkpoints = page.get_by_role("tab", name="Checkpoints")
    expect(checkpoints).to_be_visible()
    assert page.evaluate("window.scrollY") == 0
    checkpoints.click()
    page.evaluate("window.scrollTo(0, 150)")
    page.go_back()
    page.go_back()
    page.wait_for_function("left => Math.abs(window.scrollY - left) <= 2", arg=left)


def test_a_program_is_deleted_after_a_question(site: Site, page: Page, tmp_path: Path) -> None:
    program = tmp_path / "doomed.py"
    program.write_text("print('never run')\n")
    page.goto(f"{site.url}/ui/submit")
    upload(page, program)
    page.get_by_role("button", name="Delete doomed.py").click()
    dialog = page.get_by_role("dialog", name="Delete this program?")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Delete doomed.py")).to_have_count(0)
    wait_until(lambda: "doomed.py" not in str(site.get("/jars")), 5, "the server has deleted it")

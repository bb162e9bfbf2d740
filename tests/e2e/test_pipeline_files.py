"""Pipelines as files, their connections, and secrets that get nowhere; everything by its name with Ctrl+K."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from playwright.sync_api import Page, expect

from runtime.common.secrets import SECRETS_FILE
from tests.cluster.redis_fixture import running_redis
from tests.e2e.site import Site, notices
from tests.e2e.test_deploy import SLOW_MS, create, dialog, numbers
from tests.e2e.test_preview import status
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CANARY = "canary-7c1f09"


def document(name: str, **params: Any) -> dict[str, Any]:
    made = numbers(Path("/nowhere"), name=name)
    made["nodes"]["n3"] = {"type": "sink.print", "name": "Show", "uid": "show-1", "params": params}
    return made


def imported(page: Page, tmp_path: Path, value: dict[str, Any]) -> None:
    """Choose a file with a document for the import."""
    path = tmp_path / "given.json"
    path.write_text(json.dumps(value))
    page.get_by_label("File to import").set_input_files(path)


def exported(page: Page, name: str, item: str) -> str:
    """The text of a file that the menu of a pipeline gives."""
    page.get_by_role("button", name=f"Actions of {name}", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=item).click()
    return Path(download.value.path()).read_text()


def holding(directory: Path, text: str) -> list[Path]:
    """Files below a directory in which a text is, apart from the file of secrets."""
    found = []
    for path in directory.rglob("*"):
        if path.name != SECRETS_FILE and path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if text.encode() in file.read():
                    found.append(path)
    return found


def test_files_and_connections_hold_no_secrets(site: Site, page: Page, tmp_path: Path) -> None:
    page.goto(f"{site.url}/ui/pipelines")
    imported(page, tmp_path, document("Imported", label=f"postgres://ann:{CANARY}@db/x"))
    asked = page.get_by_role("dialog", name="Imported without secrets")
    expect(asked).to_contain_text("/nodes/n3/params/label")
    asked.get_by_role("button", name="Open the pipeline").click()
    expect(page.get_by_role("textbox", name="Name of the pipeline")).to_have_value("Imported")
    page.get_by_role("link", name="Pipelines").first.click()
    imported(page, tmp_path, document("Refused", password=CANARY))
    refused = page.get_by_role("dialog", name="The file cannot be imported")
    expect(refused).to_contain_text("contains a secret")
    expect(refused).not_to_contain_text(CANARY)
    refused.get_by_role("button", name="Close").click()
    assert (
        json.loads(exported(page, "Imported", "Export as JSON"))["nodes"]["n3"]["params"]["label"] == "postgres://db/x"
    )
    assert CANARY not in exported(page, "Imported", "Export as Python")
    page.get_by_role("link", name="Connections").click()
    page.get_by_role("button", name="New connection").click()
    page.get_by_role("textbox", name="Name").fill("main-store")
    page.get_by_role("combobox", name="Kind").click()
    page.get_by_role("option", name="Redis").click()
    page.get_by_role("button", name="Create").click()
    row = page.get_by_role("row").filter(has_text="main-store")
    expect(row).to_contain_text("is not known to this web process")
    secrets = site.stack.home / SECRETS_FILE
    with os.fdopen(os.open(secrets, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        json.dump({"main-store": {"url": f"redis://:{CANARY}@127.0.0.1:1/0"}}, file)
    page.get_by_role("button", name="Test main-store").click()
    expect(row).to_contain_text("does not answer")
    expect(row).not_to_contain_text(CANARY)
    page.get_by_role("button", name="Describe main-store").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    assert CANARY not in page.content()
    assert holding(site.stack.home, CANARY) == []


SHOWS = [
    "import gc",
    "from runtime.common.secrets import SecretRef",
    "def shown(row):",
    "    values = [ref._value for ref in gc.get_objects() if isinstance(ref, SecretRef) and ref._value]",
    "    print('found', values)",
    "    if row == 'bad':",
    "        raise ValueError(values[0])",
    "    return (row,)",
]
"""Python that looks for the secrets of connections in memory, prints them, and fails with one."""


def reader() -> dict[str, Any]:
    """A pipeline that reads a Redis stream and writes to another one."""
    made = numbers(Path("/nowhere"), name="Behind a connection")
    source = {"connection": "outside", "streams": ["orders"], "format": {"kind": "text"}}
    made["nodes"] = {
        "n1": {
            "type": "source.redis_streams",
            "name": "Orders",
            "uid": "orders-1",
            "params": {**source, "bounded": True},
        },
        "n2": {
            "type": "python.map",
            "name": "Shown",
            "uid": "shown-1",
            "params": {"code": SHOWS, "type": [["value", "string"]]},
        },
        "n3": {
            "type": "sink.redis_streams",
            "name": "Copies",
            "uid": "copies-1",
            "params": {"connection": "outside", "streams": ["copies"]},
        },
    }
    made["settings"]["restart"] = {"type": "none"}
    return made


def values(server: redis.Redis) -> Iterator[str]:
    """Everything that a Redis server holds, as text."""
    for key in server.scan_iter(count=1000):
        yield repr(key)
        match server.type(key):
            case b"string":
                yield repr(server.get(key))
            case b"hash":
                yield repr(server.hgetall(key))
            case b"list":
                yield repr(server.lrange(key, 0, -1))
            case b"set":
                yield repr(server.smembers(key))
            case b"zset":
                yield repr(server.zrange(key, 0, -1))
            case b"stream":
                yield repr(server.xrange(key))


def bus_url(site: Site) -> str:
    """The URL of the stack's own Redis."""
    text = next(site.stack.home.rglob("redis.conf")).read_text()
    port, password = (re.search(rf"^{name} (\S+)$", text, re.MULTILINE) for name in ("port", "requirepass"))
    assert port is not None and password is not None
    return f"redis://:{password[1]}@127.0.0.1:{port[1]}/0"


def arguments(site: Site) -> str:
    """Command lines and environments of all processes of the stack."""
    found = []
    for process in site.stack.processes():
        with suppress(psutil.NoSuchProcess):
            found.append(f"{process.cmdline()} {process.environ()}")
    return "\n".join(found)


def test_a_secret_goes_to_its_connection_and_nowhere_else(site: Site, page: Page, tmp_path: Path) -> None:
    with running_redis(tmp_path) as url, redis.Redis.from_url(url) as outside:
        secret = url.split(":")[2].split("@")[0]
        given = site.stack.home / SECRETS_FILE
        given.write_text(json.dumps({"outside": {"url": url}}))
        given.chmod(0o600)
        for number in range(3):
            outside.xadd("orders", {"value": str(number)})
        pipeline = create(site, page, reader())
        page.get_by_role("button", name="Preview", exact=True).click()
        expect(status(page)).to_contain_text("Finished", timeout=SLOW_MS)
        page.get_by_role("button", name="Printed output").click()
        expect(page.get_by_role("region", name="Printed output")).to_contain_text("found ['<outside.url>'")
        assert secret not in page.content()
        outside.xadd("orders", {"value": "bad"})
        page.get_by_role("button", name="Deploy", exact=True).click()
        dialog(page).get_by_role("button", name="Deploy", exact=True).click()

        def deployed() -> str | None:
            found = site.get(f"/api/v1/pipelines/{pipeline}/deployments")["deployments"]
            job_id: str | None = found[0]["job_id"] if found else None
            return job_id

        wait_until(lambda: deployed() is not None, SLOW_MS / 1000, "the job")
        job_id = str(deployed())
        site.wait_for_state(job_id, "FAILED", 120)
        site.open_job(page, job_id)
        expect(notices(page).first).to_contain_text("<outside.url>")
        assert secret not in page.content()
        page.get_by_role("tab", name="Logs").click()
        expect(page.get_by_role("log")).to_contain_text("<outside.url>")
        assert secret not in page.content()
        with redis.Redis.from_url(bus_url(site)) as own:
            assert [value for value in values(own) if secret in value] == []
        assert secret not in arguments(site)
        assert holding(site.stack.home, secret) == []


def test_a_pipeline_is_copied_archived_and_deleted(site: Site, page: Page, tmp_path: Path) -> None:
    create(site, page, document("Original"))
    page.get_by_role("link", name="Pipelines").first.click()
    page.get_by_role("button", name="Actions of Original", exact=True).click()
    page.get_by_role("menuitem", name="Duplicate").click()
    expect(page.get_by_role("textbox", name="Name of the pipeline")).to_have_value("Original copy")
    page.get_by_role("link", name="Pipelines").first.click()
    page.get_by_role("button", name="Actions of Original copy").click()
    page.get_by_role("menuitem", name="Archive").click()
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(page.get_by_role("link", name="Original copy")).to_have_count(0)
    page.get_by_text("Archived", exact=True).click()
    page.get_by_role("button", name="Actions of Original copy").click()
    page.get_by_role("menuitem", name="Delete").click()
    asked = page.get_by_role("dialog", name="Delete this pipeline?")
    expect(asked.get_by_role("button", name="Delete")).to_be_disabled()
    asked.get_by_role("textbox").fill("Original copy")
    asked.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Nothing is archived")).to_be_visible()
    page.get_by_text("Active", exact=True).click()
    expect(page.get_by_role("link", name="Original", exact=True)).to_be_visible()


def test_everything_is_found_by_its_name(site: Site, page: Page) -> None:
    pipeline = create(site, page, document("Findable"))
    page.keyboard.press("Control+k")
    search = page.get_by_role("combobox", name="Search commands")
    search.fill("twice")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Name of the node")).to_have_value("Twice")
    page.keyboard.press("Control+k")
    search.fill("task managers")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/ui/taskmanagers$"))
    page.keyboard.press("Control+k")
    search.fill("findable")
    expect(page.get_by_role("option", name="Findable")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/ui/pipelines/{pipeline}/edit$"))

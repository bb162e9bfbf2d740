"""Two people work on one pipeline: versions that somebody else saves are merged, as often as it takes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.site import Site
from tests.e2e.test_deploy import create, dialog, numbers
from tests.e2e.test_editor import draft, edited, field
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


class SomebodyElse:
    """A developer with an account of their own, who saves versions over REST, on top of the head."""

    NAME, PASSWORD = "zoe", "a long password of zoe's"

    def __init__(self, site: Site, page: Page, pipeline: str) -> None:
        account = {"name": self.NAME, "role": "developer", "password": self.PASSWORD}
        self._site = site
        self._url = f"/api/v1/pipelines/{pipeline}/versions"
        self._post(page.context, "/api/v1/users", account)
        assert page.context.browser is not None
        self._context = page.context.browser.new_context()
        self._post(self._context, "/api/v1/session", {"username": self.NAME, "password": self.PASSWORD})

    def save(self, **params: dict[str, Any]) -> int:
        """Save the head with other parameters of some nodes; returns the new version's number."""
        head = max(int(each["number"]) for each in self._site.get(self._url)["versions"])
        document = copy.deepcopy(self._site.get(f"{self._url}/{head}")["document"])
        for node, changed in params.items():
            document["nodes"][node]["params"].update(changed)
        body = {"document": document, "message": f"theirs {head + 1}"}
        return int(self._post(self._context, self._url, body, {"If-Match": f'"{head}"'})["number"])

    def _post(self, context: BrowserContext, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        tokens = [cookie["value"] for cookie in context.cookies() if cookie["name"] == "csrftoken"]
        own = {"Referer": self._site.url} | ({"X-CSRFToken": tokens[0]} if tokens else {})
        answer = context.request.post(self._site.url + path, data=body, headers=own | (headers or {}))
        assert answer.ok, answer.text()
        return answer.json()


def save(page: Page, message: str) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    dialog(page).get_by_role("textbox").fill(message)
    dialog(page).get_by_role("button", name="Save").click()


def save_is_refused(page: Page, message: str) -> None:
    save(page, message)
    expect(dialog(page).get_by_role("alert")).to_contain_text("Somebody saved a version in the meantime")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)


def test_versions_of_others_are_merged_and_so_is_a_third_save_meanwhile(site: Site, page: Page, tmp_path: Path) -> None:
    pipeline = create(site, page, numbers(tmp_path / "numbers", name="Shared numbers"))
    other = SomebodyElse(site, page, pipeline)

    def drafted(*texts: str) -> bool:
        text = json.dumps(draft(site, page, pipeline))
        return all(each in text for each in texts)

    edited(page, "Generator", lambda: field(page, "/params/rows_per_second").fill("100"))
    wait_until(lambda: drafted('"rows_per_second": 100'), 20, "the draft is on the server")
    # another node: both hold
    assert other.save(n2={"columns": [["twice", "id * 3"]]}) == 2
    save_is_refused(page, "mine")
    expect(page.get_by_role("status").filter(has_text="Merged with version 2 by zoe")).to_be_attached()
    wait_until(lambda: drafted('"rows_per_second": 100', "id * 3"), 20, "the other's change is in the draft")
    # the same field: it is asked about, and somebody saves once more while it is
    assert other.save(n1={"rows_per_second": 50}) == 3
    save_is_refused(page, "mine again")
    asked = page.get_by_role("region", name="Changed by both")
    expect(asked).to_contain_text("Generator: rows per second")
    assert other.save(n3={"path": str(tmp_path / "elsewhere")}) == 4
    asked.get_by_role("button", name="Take this").first.click()
    expect(asked).to_have_count(0)
    save_is_refused(page, "mine at last")
    wait_until(lambda: drafted("elsewhere"), 20, "the third change is in the draft")
    expect(asked).to_have_count(0)
    save(page, "mine at last")
    expect(page.get_by_text("Version 5", exact=True)).to_be_visible()
    nodes = site.get(f"/api/v1/pipelines/{pipeline}/versions/5")["document"]["nodes"]
    assert nodes["n1"]["params"]["rows_per_second"] == 100
    assert nodes["n2"]["params"]["columns"] == [["twice", "id * 3"]]
    assert nodes["n3"]["params"]["path"] == str(tmp_path / "elsewhere")

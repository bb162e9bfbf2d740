"""What the editor makes of a pipeline, by any of its commands, is a document that the server reads.

`drawn.jsonl` holds the ends of random sequences of edits. A test of the page writes it, and fails when it is no longer
what the editor makes: `npx vitest run src/model/pipeline/history.test.ts --update`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.pipeline import read_document

DRAWN = [json.loads(line) for line in (Path(__file__).parent / "drawn.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("drawn", DRAWN, ids=range(len(DRAWN)))
def test_what_is_drawn_is_read(drawn: dict[str, object]) -> None:
    read_document(drawn)


def test_all_parts_of_documents_are_drawn() -> None:
    parts = {name for drawn in DRAWN for name, part in drawn.items() if part}
    assert parts >= {"nodes", "edges", "settings", "parameters", "types", "code", "samples", "tests", "layout"}

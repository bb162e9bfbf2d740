"""The benchmark's report gives ratios against each loop, and the machine that they belong to."""

from __future__ import annotations

import json

import pytest

from benchmarks.report import Measurement, document, page, ratio, table

MEASUREMENTS = [
    Measurement("filter", "tidemark", 1_000, 10, seconds=2.0, start_seconds=3.5),
    Measurement("filter", "python", 1_000, 10, seconds=1.0),
    Measurement("filter", "polars", 1_000, 10, seconds=0.5),
]


def test_a_ratio_is_the_engines_rows_per_second_over_the_loops() -> None:
    assert ratio(MEASUREMENTS, "filter", "python") == pytest.approx(0.5)
    assert ratio(MEASUREMENTS, "filter", "polars") == pytest.approx(0.25)


def test_the_table_has_a_line_per_measurement() -> None:
    lines = table(MEASUREMENTS).splitlines()
    assert lines[2] == "| filter | tidemark | 10 | 2.00 | 500 |  |"
    assert lines[4] == "| filter | polars | 10 | 0.50 | 2,000 | 0.25 |"


def test_the_document_names_machine_versions_and_commit() -> None:
    run = json.loads(json.dumps(document(MEASUREMENTS, 1_000, 2, "mini-cluster")))
    assert run["machine"]["cpus"] >= 1
    assert "pyspark" in run["machine"]["packages"]
    assert run["measurements"][0]["rows_per_second"] == 500
    text = page(run, MEASUREMENTS)
    assert "filter 3.5 s" in text
    assert table(MEASUREMENTS) in text

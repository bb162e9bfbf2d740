"""The demonstration can be submitted, and what it prints reads well."""

from __future__ import annotations

from pathlib import Path

from examples import flights_live
from runtime.client.extract import extract_job_graph


def test_the_program_can_be_submitted() -> None:
    program = Path(flights_live.__file__)
    job = extract_job_graph(program, parallelism=2)
    assert job.graph.name == flights_live.JOB_NAME
    assert {vertex.name: vertex.parallelism for vertex in job.graph.vertices} == {
        "Source: flights -> flown": 2,
        "by airport and hour -> late -> Sink: late flights": 2,
        "by carrier and day": 2,
        "board -> Sink: windows": 1,
    }
    assert not job.warnings


def test_a_window_reads_well() -> None:
    window = ("EWR", "2013-01-01T10:00:00Z", "2013-01-01T11:00:00Z", 12, 3.25, 44)
    assert flights_live.describe(window) == (
        "2013-01-01T10:00:00Z  EWR    12 flights  mean delay    3.2 min  highest   44 min"
    )

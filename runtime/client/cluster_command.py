"""The command about the cluster itself: its JobManagers, TaskManagers and slots."""

from __future__ import annotations

import argparse
from typing import Any

from runtime.client.arguments import Actions, with_json, with_wide
from runtime.client.job_commands import warn_if_stale
from runtime.client.jobs import time_text
from runtime.client.rest import RestClient
from runtime.client.tables import table
from runtime.client.terminal import SUCCESS, Terminal


def add_cluster(actions: Actions) -> None:
    """Add `cluster`."""
    parser = actions.add_parser(
        "cluster",
        help="show the cluster: its JobManagers, TaskManagers and slots",
        description="Show which JobManager leads, which stand by, and the TaskManagers with their slots.",
        example="tidemark cluster",
    )
    with_json(parser)
    with_wide(parser)
    parser.set_defaults(command=_cluster)


def _cluster(client: RestClient, _: argparse.Namespace, terminal: Terminal) -> int:
    cluster, known = client.cluster(), client.jobmanagers()
    jobmanagers = known["jobmanagers"]
    taskmanagers = [t for t in cluster["taskmanagers"] if t["state"] in ("REGISTERED", "DRAINING")]
    # the database does not have what the jobmanager alone knows
    is_known = cluster.get("freshness", {}).get("source") != "database"
    slots = {"total": cluster["slots_total"], "available": cluster["slots_available"] if is_known else None}
    free = f"{slots['available']} of {slots['total']} slots are free."
    unknown = f"{slots['total']} slots; how many are free is not known."
    terminal.result(
        {"jobmanagers": jobmanagers, "taskmanagers": taskmanagers, "slots": slots},
        *_jobmanager_lines(jobmanagers, terminal.columns),
        "",
        *_taskmanager_lines(taskmanagers, terminal.columns, is_known=is_known),
        free if is_known else unknown,
    )
    if not known["redis_answers"]:
        terminal.complain("Redis does not answer: standby JobManagers are unknown.")
    warn_if_stale(cluster, terminal)
    return SUCCESS


def _jobmanager_lines(jobmanagers: list[dict[str, Any]], columns: int | None) -> list[str]:
    rows = [("JOBMANAGER", "ROLE", "EPOCH", "LEADS SINCE")]
    for entry in jobmanagers:
        is_leader = entry["role"] == "LEADER"
        silent = ", silent" if entry["is_alive"] is False else ""
        since = time_text(entry["leading_since"]) if is_leader else "-"
        rows.append((entry["id"], f"{entry['role'].lower()}{silent}", str(entry["epoch"] or "-"), since))
    lines = table(rows, right={2}, columns=columns, shrink=((0, 16),))
    if not any(entry["role"] == "LEADER" for entry in jobmanagers):
        lines.append("No JobManager leads.")
    return lines


def _taskmanager_lines(taskmanagers: list[dict[str, Any]], columns: int | None, *, is_known: bool) -> list[str]:
    if not taskmanagers:
        return ["No TaskManager is registered."]
    rows = [("TASKMANAGER", "SPARK MASTER", "FREE", "SLOTS")]
    for entry in taskmanagers:
        count = str(entry["free_slots"]) if is_known else "-"
        free = "draining" if entry["state"] == "DRAINING" else count
        rows.append((entry["id"], entry["spark_master"], free, str(entry["slots"])))
    return table(rows, right={2, 3}, columns=columns, shrink=((1, 12), (0, 16)))

"""docker/prometheus: promtool reads the files, and each alert fires under its fault and not before."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

DIRECTORY = Path(__file__).resolve().parent.parent.parent / "docker" / "prometheus"
RULES = DIRECTORY / "alerts.yaml"
PROMTOOL = shutil.which("promtool")
JOB = {"job_id": "a" * 32, "job_name": "flights"}

pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: apt-get install prometheus; .ci/run does as root)"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Series that Prometheus scrapes, once a minute, and the alert that comes of them.

    Attributes:
        series: values by metric, in promtool's notation.
        labels: of all series.
        quiet_at: minutes; it does not fire yet.
        fires_at: minutes; it does.
        summary: of the alert that fires.
    """

    alert: str
    severity: str
    series: Mapping[str, str]
    quiet_at: int
    fires_at: int
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)


UNREACHABLE = "The web process, its database or Redis does not answer."
NO_LEADER = "No JobManager leads: jobs run on, but nobody restarts them or takes checkpoints."
PLACE = {**JOB, "task_id": "b" * 32, "task_name": "by origin", "cause": "idle"}
PROCESS = {"kind": "jobmanager", "process": "a:1"}
FAULTS = [
    Fault(
        "TidemarkDiskFull",
        "critical",
        {"tidemark_process_disk_free_bytes": "5e9 1048576x5"},
        2,
        3,
        "1MiB are free at the jobmanager a:1.",
        PROCESS,
    ),
    Fault(
        "TidemarkProcessSilent",
        "warning",
        {"tidemark_processes_silent": "0 1x6"},
        3,
        4,
        "1 JobManagers or TaskManagers live and do not report.",
    ),
    Fault(
        "TidemarkErrorsLogged",
        "warning",
        {"tidemark_process_log_errors": "0x10 6x5"},
        10,
        11,
        "The jobmanager a:1 has logged 6 errors.",
        PROCESS,
    ),
    Fault("TidemarkUnreachable", "critical", {"up": "1 1 0x5"}, 2, 3, UNREACHABLE, {"job": "tidemark"}),
    Fault("TidemarkUnreachable", "critical", {"tidemark_redis_up": "1 1 0x5"}, 2, 3, UNREACHABLE),
    Fault("TidemarkNoLeader", "critical", {"tidemark_leader_present": "1 1 0x5"}, 2, 3, NO_LEADER),
    Fault("TidemarkNoLeader", "critical", {"tidemark_leader_beat_age_seconds": "5 30 45x5"}, 2, 3, NO_LEADER),
    Fault(
        "TidemarkLeaderChangesOften",
        "warning",
        {"tidemark_leader_epoch": "1 2 3 4 5"},
        3,
        4,
        "The leader has changed 4 times within 30 minutes.",
    ),
    Fault(
        "TidemarkNoTaskManagers",
        "critical",
        {"flink_jobmanager_numRegisteredTaskManagers": "2 0x9"},
        2,
        3,
        "No TaskManager is registered.",
    ),
    Fault(
        "TidemarkJobFailed",
        "critical",
        {"tidemark_jobs_failed_lately": "0 2 2"},
        0,
        1,
        "2 jobs have failed for good within 10 minutes.",
    ),
    Fault(
        "TidemarkJobRestarts",
        "warning",
        {"flink_jobmanager_job_numRestarts": "0x15 0+1x15"},
        16,
        31,
        "flights has restarted 15 times within 15 minutes.",
        JOB,
    ),
    Fault(
        "TidemarkJobsStranded",
        "critical",
        {"tidemark_jobs_stranded": "0 2x5"},
        2,
        3,
        "2 jobs have not ended, and nobody runs them.",
    ),
    Fault(
        "TidemarkRefused",
        "warning",
        {"tidemark_process_refused": "0x10 11x5"},
        10,
        11,
        "The jobmanager a:1 has refused 11 connections.",
        {**PROCESS, "what": "connections"},
    ),
    Fault(
        "TidemarkCheckpointsFail",
        "warning",
        {"flink_jobmanager_job_numberOfFailedCheckpoints": "7x15 7+1x15"},
        16,
        31,
        "Checkpoints of flights fail.",
        JOB,
    ),
    Fault(
        "TidemarkCheckpointOld",
        "warning",
        {"tidemark_job_since_checkpoint_seconds": "360 500x9", "tidemark_job_checkpoint_interval_seconds": "60x9"},
        2,
        3,
        "flights has completed no checkpoint for 8m 20s.",
        JOB,
    ),
    Fault(
        "TidemarkWatermarkLags",
        "warning",
        {"tidemark_job_watermark_lag_seconds": "300 400x9"},
        5,
        6,
        "The watermark of flights is 6m 40s behind.",
        JOB,
    ),
    Fault(
        "TidemarkWatermarkHeld",
        "warning",
        {"tidemark_job_causes": "_ 1x9"},
        5,
        6,
        "by origin holds the watermark of flights: idle.",
        {**PLACE, "topic": "watermark"},
    ),
    Fault(
        "TidemarkJobLimited",
        "info",
        {"tidemark_job_causes": "_ 1x19"},
        10,
        11,
        "by origin limits flights: idle.",
        {**PLACE, "topic": "limit"},
    ),
    Fault(
        "TidemarkOperationsWait",
        "warning",
        {"tidemark_oldest_operation_age_seconds": "900 1000x3"},
        0,
        1,
        "An operation has been open for 16m 40s.",
    ),
]


def promtool(*arguments: str) -> str:
    """Return the output of promtool, which must accept what it is given."""
    result = subprocess.run((str(PROMTOOL), *arguments), capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def case(fault: Fault) -> dict[str, object]:
    """A fault as a test of promtool's: JSON is YAML."""
    selector = ", ".join(f'{name}="{value}"' for name, value in fault.labels.items())
    labels = {**fault.labels, "severity": fault.severity}
    fired = {"exp_labels": labels, "exp_annotations": {"summary": fault.summary}}
    return {
        "interval": "1m",
        "input_series": [
            {"series": f"{metric}{{{selector}}}", "values": values} for metric, values in fault.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{fault.quiet_at}m", "alertname": fault.alert, "exp_alerts": []},
            {"eval_time": f"{fault.fires_at}m", "alertname": fault.alert, "exp_alerts": [fired]},
        ],
    }


def test_every_alert_has_a_fault() -> None:
    alerts = set(re.findall(r'- alert: "(\w+)"', RULES.read_text()))
    assert alerts and alerts == {fault.alert for fault in FAULTS}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.alert}-{next(iter(fault.series))}")
def test_an_alert_fires_under_its_fault_and_not_before(fault: Fault, tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    cases = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case(fault)]}
    file.write_text(json.dumps(cases))
    assert "SUCCESS" in promtool("test", "rules", str(file))


def test_prometheus_takes_rules_and_configuration() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(RULES))
    # the file with the token is the user's
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", str(DIRECTORY / "prometheus.yaml"))

"""A leader of many jobs is killed: how long the next one takes to adopt them all. Real processes, a slot in each.

TIDEMARK_ADOPTED_JOBS=N has N jobs of 8 slots instead of 20. What was measured is printed.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.leader_rows import ClusterRows
from tests.chaos.runner import stretched
from tests.cluster.stack import running_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

PROGRAM = Path(__file__).with_name("steady_program.py")
JOBS = int(os.environ.get("TIDEMARK_ADOPTED_JOBS", "20"))
SLOTS = 8
#: from the first look of the next leader until all jobs run under it, of the same attempt in the same processes
ADOPTED_S = 5.0
START_S = 600.0
LEADER_S = 15.0
CHECKPOINT_S = 30.0


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The stack's processes are looked after by `running_stack`."""


def test_a_new_leader_adopts_many_jobs_within_seconds(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running_stack(home, TIDEMARK_SLOTS=str(JOBS * SLOTS), TIDEMARK_JOBMANAGERS="2") as stack:
        client, rows = stack.client, ClusterRows("", home / "db.sqlite3")
        for demo in client.jobs():
            client.cancel(demo["jid"])
        program = client.upload(PROGRAM)
        options = {"execution.checkpointing.interval": "5 s"}
        jobs = [client.run(program, [], options, SLOTS, None, None) for _ in range(JOBS)]
        wait_until(lambda: rows.running(rows.leader().epoch) >= JOBS, START_S, "all jobs run")
        wait_until(lambda: all(rows.newest_checkpoint(job) for job in jobs), START_S, "all jobs take checkpoints")
        before = {job: rows.job(job) for job in jobs}
        newest = {job: rows.newest_checkpoint(job) for job in jobs}
        assert {len(row.pids) for row in before.values()} == {SLOTS}
        leader = rows.leader()
        killed_s = time.monotonic()
        os.kill(leader.pid, signal.SIGKILL)
        wait_until(lambda: rows.leader().epoch > leader.epoch and rows.leader().pid != 0, LEADER_S, "another leader")
        leads_s = time.monotonic() - killed_s
        adopted_s = wait_until(
            lambda: rows.running(rows.leader().epoch) >= JOBS, 10 * stretched(ADOPTED_S), "all jobs are adopted"
        )
        limit_s = stretched(ADOPTED_S)
        wait_until(
            lambda: all(rows.completed_ms(job, newest[job]) is not None for job in jobs),
            stretched(CHECKPOINT_S),
            "the next checkpoint of each job",
        )
        checkpoint_s = time.monotonic() - killed_s
        print(
            f"{JOBS} jobs of {SLOTS} slots: another leader after {leads_s:.1f} s, all adopted {adopted_s:.1f} s later, "
            f"a checkpoint of each within {checkpoint_s:.1f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
        )
        assert {job: rows.job(job) for job in jobs} == before, "the same attempts, in the same processes"
        assert adopted_s <= limit_s

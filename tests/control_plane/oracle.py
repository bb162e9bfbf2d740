"""Invariants of a control plane, whatever goes wrong: watched all the time, and judged once it has come to rest.

Each violation begins with the name of the rule, which tests of mistakes ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db import connection

from backend.cluster import bus
from backend.cluster.lease import LEASE_MS, TAKE_OVER_MS
from backend.cluster.models import TERMINAL_STATES, Checkpoint, Job, Operation, Placement, TaskManager
from runtime.graph.codec import job_graph_from_json
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.execution_graph import num_slots
from runtime.jobmaster.requirements import least_slots
from runtime.jobmaster.rescaling import rescaled
from runtime.task.messages import Deploy, JobMasterMessage, NotifyCheckpointAborted, NotifyCheckpointComplete
from tests.control_plane.scenario import Submission
from tests.control_plane.users import graph_of

if TYPE_CHECKING:
    from backend.cluster.jobmanager import JobManager
    from tests.control_plane.taskmanagers import SlotProcess, Stage, TaskManagerProcess
    from tests.control_plane.world import LeaderProcess, World

LEADERLESS = "nobody leads"
DEPOSED = "a leader with a lease is replaced"
HASTY = "a standby that stood still takes over before it has watched the leader for long enough"
BROKE = "broke"
STRANDED = "a job without a runner"
DOUBLED = "a job with two runners"
ZOMBIE = "a leader acts after its epoch"
NOT_FINISHED = "a stop did not come about though its savepoint is complete"
LAPSED = "a leader acts without a lease"
LINGERS = "a leader that was replaced does not end"
REUSED = "an attempt number is used again"
CROWDED = "slots are granted twice"
DELETED = "a checkpoint that is needed is gone"
FORGOTTEN = "a job goes on without its newest checkpoint"
REVIVED = "a job that had ended"
CHANGED = "an answer that had been given"
UNANSWERED = "an operation is not answered"
NO_EFFECT = "an answer without its effect"
NO_ANSWER = "an effect without its answer"
UNKNOWN_SAVEPOINT = "a savepoint that nobody was told of"
LEFT = "a job that does not run"
LEFTOVERS = "checkpoints outlive a job that does not keep them"
UNTOLD = "a document that is not true"
ROWS = "a row of a TaskManager that is not true"
BEYOND = "a job has more slots than its upper bound, or a parallelism out of its bounds"
RESTARTED = "a job is restarted although only its leader was lost"
MISPLACED = "what runs is not what the database says"
CONTRADICTED = "a slot is told of a checkpoint what the database contradicts"
UNUSED = "slots stay free that an elastic job wants"

#: within this time after the database answers every job has exactly one runner, whoever leads, or nobody
RUNNER_MS = 10_000.0
#: the same for somebody to lead, if a standby is there that does not stand still
LEADER_MS = 6_000.0
#: a leader that has taken over finds, adopts or restarts all jobs within this time
TAKING_OVER_MS = 2_000.0
#: the same for a leader that was replaced to notice
NOTICE_MS = 15_000.0

#: the statement that records the end of a TaskManager
TASKMANAGER_GONE = 'UPDATE "cluster_taskmanager" SET "state"'
Kind = Operation.Kind


class Oracle:
    """Watches one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: that of SQL
        self.epoch = 0
        #: when something went wrong last, and until when things go wrong that last
        self._disturbed_ms = self._disturbed_until_ms = 0.0
        #: (job, attempt, slot) → the epoch that started it
        self._started: dict[tuple[str, int, int], int] = {}
        #: attempts that are known to have run
        self._ran: set[tuple[str, int]] = set()
        #: ended job → state and time of its end
        self._ends: dict[str, tuple[str, int]] = {}
        #: answered operation → its result
        self._answers: dict[str, Any] = {}
        #: (job, attempt) → where the newest checkpoint in SQL was when the attempt was first deployed
        self._newest: dict[tuple[str, int], str | None] = {}
        #: when somebody led who did not stand still, and when the database was away, last
        self._led_ms = self._database_ms = 0.0
        #: elastic job → number of slots that it ran with when it was last looked at
        self._sizes: dict[str, int] = {}
        #: job → its newest checkpoint in SQL so far
        self._reached: dict[str, int] = {}
        #: (job, checkpoint) that SQL has, or had
        self._recorded: set[tuple[str, int]] = set()
        #: (slot's process, checkpoint) → how the slot was told that it ended
        self._told: dict[tuple[int, int], str] = {}
        #: job that has not ended and has no runner, or two → since when
        self._without_one_runner: dict[str, float] = {}
        #: ended job whose checkpoints are retained → where they are
        self._retained: dict[str, set[str]] = {}
        #: names of the directories of savepoints, in the end
        self.savepoints: list[str] = []
        #: who leads according to SQL, and since when
        self._leading: tuple[LeaderProcess | None, float] = (None, 0.0)
        #: what happened, for tests that ask whether it ever did
        self.counts: Counter[str] = Counter()

    # --- what happens -------------------------------------------------------------------------------------------------

    def disturbed(self, ms: float) -> None:
        """Something goes wrong, for that long."""
        self._disturbed_ms = self._world.clock.monotonic_ms()
        self._disturbed_until_ms = max(self._disturbed_until_ms, self._disturbed_ms + ms)

    def written(self, statements: Sequence[str]) -> None:
        """Somebody has committed writes."""
        world = self._world
        leading = self._rows("SELECT epoch, holder FROM cluster_leaderepoch")
        before, (self.epoch, holder) = self.epoch, leading[0] if leading else (0, "")
        process: Any = world.scheduler.process
        if before != self.epoch:
            self._look_at_change(before, process)
        if process in world.leaders and process.epoch:
            process.has_released = process.epoch == self.epoch and not holder
            others = [statement for statement in statements if "cluster_leaderepoch" not in statement]
            if others and process.epoch != self.epoch:
                world.violate(f"{ZOMBIE}: {process.name} of epoch {process.epoch} wrote: {others[0]:.80}")
            if not others and process.epoch == self.epoch:
                process.renewed_ms = world.clock.monotonic_ms()
        self.counts["TaskManagers gone"] += sum(TASKMANAGER_GONE in statement for statement in statements)
        self._look_at_rows()

    def _look_at_change(self, epoch: int, following: LeaderProcess) -> None:
        """Another jobmanager has taken over."""
        world, now_ms = self._world, self._world.clock.monotonic_ms()
        lost, began_ms = self._leading
        self._leading = following, now_ms
        if lost is None or lost.has_released:
            return
        self.counts["leaders lost"] += 1
        led_ms = (now_ms if lost.lost_ms is None else lost.lost_ms) - began_ms
        if self.counts["leaders lost"] > 1 and led_ms < TAKING_OVER_MS:
            self.counts["leaders lost as they took over"] += 1
        if lost.is_dead:
            return
        age_ms = now_ms - lost.renewed_ms
        if lost.epoch == epoch and age_ms < LEASE_MS:
            world.violate(f"{DEPOSED}: {lost.name}, {age_ms:.0f} ms after it renewed its lease")
        if now_ms - following.awake_ms < TAKE_OVER_MS:
            world.violate(f"{HASTY}: {following.name}, {now_ms - following.awake_ms:.0f} ms after it had stood still")

    def started(self, taskmanager: TaskManagerProcess, stage: Stage) -> None:
        """A TaskManager begins a stage."""
        world = self._world
        job_id, attempt, number = stage.key
        manager: Any = taskmanager.manager
        epoch = manager._epoch
        if epoch < taskmanager.epoch:
            world.violate(f"{ZOMBIE}: {taskmanager.name} obeys epoch {epoch} after {taskmanager.epoch}")
        taskmanager.epoch = max(taskmanager.epoch, epoch)
        world.tell(f"{taskmanager.name}: stage {number} of attempt {attempt} of {self._name(job_id)} begins")
        if world.scenario.only_leaders_fail and (job_id, attempt - 1) in self._ran:
            world.violate(f"{RESTARTED}: attempt {attempt} of {self._name(job_id)}")
        # there is one region: where an earlier attempt ran is forgotten before, lest the next leader adopts that
        earlier = self._rows(f"SELECT attempt FROM cluster_placement WHERE job_id = '{job_id}' AND attempt < {attempt}")
        if earlier:
            world.violate(f"{MISPLACED}: attempt {attempt} of {self._name(job_id)} begins, placed are {earlier}")
        for slot in stage.spec.slots:
            key = (job_id, attempt, int(slot))
            if key in self._started:
                world.violate(f"{REUSED}: slot {slot} of attempt {attempt} of {self._name(job_id)}")
            self._started[key] = epoch
        mine = [s for s in taskmanager.stages.running.values() if self._epoch_of(s) == epoch]
        if sum(len(s.slots) for s in mine) > taskmanager.num_slots:
            world.violate(
                f"{CROWDED}: {taskmanager.name} has {taskmanager.num_slots} slots for {[s.key for s in mine]}"
            )

    def deployed(self, key: tuple[str, int, int], message: Deploy) -> None:
        """A slot is told what to run, and from which checkpoint."""
        job_id, attempt, _ = key
        if (job_id, attempt) not in self._newest:
            rows = Checkpoint.objects.filter(job_id=job_id).order_by("-checkpoint_id")
            self._newest[job_id, attempt] = rows.values_list("location", flat=True).first()
        newest = self._newest[job_id, attempt]
        restored = {None if task.restore is None else task.restore.location for task in message.tasks}
        if restored != {newest}:
            self._world.violate(
                f"{FORGOTTEN}: attempt {attempt} of {self._name(job_id)} begins with {restored}, the newest is {newest}"
            )
        if newest is not None:
            self.counts["restored"] += 1

    def told(self, slot: SlotProcess, message: JobMasterMessage) -> None:
        """A slot hears something: how a checkpoint ended is what SQL says, and the same each time."""
        match message:
            case NotifyCheckpointComplete(checkpoint_id):
                end, is_true = "complete", (slot.stage.key[0], checkpoint_id) in self._recorded
            case NotifyCheckpointAborted(checkpoint_id):
                end, is_true = "given up", (slot.stage.key[0], checkpoint_id) not in self._recorded
            case _:
                return
        self.counts[f"told that a checkpoint is {end}"] += 1
        if not is_true or self._told.setdefault((slot.pid, checkpoint_id), end) != end:
            job_id, attempt, _ = slot.stage.key
            self._world.violate(
                f"{CONTRADICTED}: slot {slot.script.slot} of attempt {attempt} of {self._name(job_id)}: "
                f"checkpoint {checkpoint_id} is {end}"
            )

    # --- looks --------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at everything; called twice a second."""
        world = self._world
        now_ms = world.clock.monotonic_ms()
        self._look_at_files()
        self._look_at_slots()
        if world.database.is_away:
            self._database_ms = now_ms
        leader = world.leader
        if leader is not None and self._leads(leader):
            self._led_ms = now_ms
        since_ms = max(self._led_ms, self._database_ms, self._disturbed_ms)
        # one that waits for an answer stands still, too
        standbys = [max(p.thawed_ms, p.answered_ms) for p in world.leaders if not (p.epoch or p.is_dead or p.is_frozen)]
        # without a standby that could lead the one that stands still has to come back
        if now_ms - max(since_ms, min(standbys, default=self._disturbed_until_ms)) > LEADER_MS:
            world.violate(f"{LEADERLESS} since {self._led_ms:.0f}")
        if self._is_calm_for(NOTICE_MS):
            for process in self._replaced():
                world.violate(f"{LINGERS}: {process.name} of epoch {process.epoch}, epoch {self.epoch} leads")
        self._look_at_runners(now_ms)
        if leader is not None and leader.manager is not None and not leader.is_frozen:
            self._look_at_sizes(leader.manager)

    def _look_at_runners(self, now_ms: float) -> None:
        """Every job that has not ended has exactly one runner, soon after the database answers.

        Time goes on whether anybody leads or not: it counts from when the job had one, from the last fault, and from
        when the database was away last.
        """
        world = self._world
        since_ms = max(self._database_ms, self._disturbed_until_ms)
        runners = {job_id: self._runners(job_id) for job_id in self._unended()}
        wrong = {job_id: of for job_id, of in runners.items() if len(of) != 1 or not self._leads(of[0])}
        self._without_one_runner = {job_id: self._without_one_runner.get(job_id, now_ms) for job_id in wrong}
        for job_id, wrong_ms in self._without_one_runner.items():
            if now_ms - max(since_ms, wrong_ms) > RUNNER_MS:
                rule = DOUBLED if any(map(self._leads, wrong[job_id])) else STRANDED
                leader = "nobody" if world.leader is None else world.leader.name
                running = [process.name for process in wrong[job_id]]
                world.violate(f"{rule}: {self._name(job_id)} under {leader}, run by {running}")

    def _runners(self, job_id: str) -> list[LeaderProcess]:
        """Return the jobmanagers that run a job and do not stand still, whether or not they may."""
        return [p for p in self._world.leaders if not (p.is_dead or p.is_frozen) and self._runs(p, job_id)]

    def _leads(self, process: LeaderProcess) -> bool:
        """Return whether a jobmanager can act as the leader: it is at work, and its lease is valid."""
        age_ms = self._world.clock.monotonic_ms() - process.renewed_ms
        is_at_work = process.manager is not None and not process.is_dead and not process.is_frozen
        return is_at_work and process.epoch == self.epoch and age_ms <= LEASE_MS

    def _replaced(self) -> list[LeaderProcess]:
        """Return the leaders whose epoch is over, and who could know it."""
        alive = [p for p in self._world.leaders if not p.is_dead and not p.is_frozen]
        return [process for process in alive if process.epoch and process.epoch != self.epoch]

    def _is_calm_for(self, ms: float) -> bool:
        """Return whether nothing that lasts has gone wrong for so long."""
        return self._world.clock.monotonic_ms() - self._disturbed_until_ms > ms

    def _runs(self, leader: LeaderProcess, job_id: str) -> bool:
        runner = None if leader.manager is None else leader.manager.jobs.runners.get(job_id)
        return runner is not None and not (runner.is_over and not runner.job.is_terminal)

    def _look_at_rows(self) -> None:
        for job_id, state, ended_at, attempt in self._rows("SELECT id, state, ended_at, attempt FROM cluster_job"):
            if state == "RUNNING":
                self._ran.add((job_id, attempt))
            if job_id in self._ends and self._ends[job_id] != (state, ended_at):
                self._world.violate(f"{REVIVED} {self._ends[job_id]} is {state}: {self._name(job_id)}")
            if state in TERMINAL_STATES and job_id not in self._ends:
                self._ends[job_id] = (state, ended_at)
                self._note_retained(job_id, state)
                self._world.tell(f"{self._name(job_id)} is {state}")
        rows = self._rows("SELECT job_id, checkpoint_id FROM cluster_checkpoint ORDER BY checkpoint_id")
        self._recorded.update(rows)
        reached = dict(rows)
        for job_id, number in self._reached.items():
            if job_id not in self._ends and reached.get(job_id, -1) < number:
                self._world.violate(
                    f"{DELETED}: {self._name(job_id)} had checkpoint {number}, now {reached.get(job_id)}"
                )
        self._reached |= reached
        answered = "SELECT trigger_id, result, finished_at FROM cluster_operation WHERE state = 'COMPLETED'"
        for trigger_id, *answer in self._rows(answered):
            if trigger_id not in self._answers:
                self._answers[trigger_id] = answer
                self._world.tell(f"operation {trigger_id[-4:]}: {answer[0]}")
            elif self._answers[trigger_id] != answer:
                self._world.violate(f"{CHANGED}: {self._answers[trigger_id]} became {answer}")

    def _note_retained(self, job_id: str, state: str) -> None:
        """A job has ended: what it keeps stays from now on."""
        submission = self._world.scenario.submissions[self._world.users.job_ids.index(job_id)]
        if submission.keeps_checkpoints and state in ("CANCELED", "FAILED"):
            rows = self._rows(f"SELECT location FROM cluster_checkpoint WHERE job_id = '{job_id}'")
            self._retained[job_id] = {location for (location,) in rows}

    def _look_at_slots(self) -> None:
        """No attempt has more slots than its job may have."""
        scenario = self._world.scenario
        counts = Counter(slot.stage.key[:2] for slot in self._world.slots())
        for (job_id, attempt), count in counts.items():
            number = self._world.users.job_ids.index(job_id)
            asked = [r.argument for r in scenario.requests if r.job == number and r.kind == Kind.RESCALE]
            if count > max(scenario.submissions[number].parallelism, *asked, 0):
                self._world.violate(f"{BEYOND}: attempt {attempt} of {self._name(job_id)} has {count} slots")

    def _look_at_sizes(self, manager: JobManager) -> None:
        """Count how often elastic jobs have grown and shrunk."""
        for job_id, runner in manager.jobs.runners.items():
            submission = self._world.scenario.submissions[self._world.users.job_ids.index(job_id)]
            if runner.job.state == "RUNNING" and submission.is_elastic:
                size, before = num_slots(runner.scaling.graph), self._sizes.get(job_id, 0)
                self._sizes[job_id] = size
                if before and size != before:
                    self.counts["grown" if size > before else "shrunk"] += 1

    def _look_at_files(self) -> None:
        """Every checkpoint that a job may have to go on from, or that a user has kept, is there."""
        for job_id, locations in self._retained.items():
            rows = self._rows(f"SELECT location FROM cluster_checkpoint WHERE job_id = '{job_id}'")
            gone = locations - {location for (location,) in rows}
            gone |= {location for location in locations if not (_path(location) / "_metadata").exists()}
            if gone:
                self._world.violate(f"{DELETED}: {self._name(job_id)} has ended and keeps {sorted(gone)}")
        rows = self._rows(
            "SELECT c.location, c.job_id, c.checkpoint_id FROM cluster_checkpoint c JOIN cluster_job j"
            " ON c.job_id = j.id WHERE j.state NOT IN ('FINISHED', 'CANCELED', 'FAILED')"
        )
        for location, job_id, number in rows:
            if not (_path(location) / "_metadata").exists():
                self._world.violate(f"{DELETED}: checkpoint {number} of {self._name(job_id)}")

    # --- the end ------------------------------------------------------------------------------------------------------

    def complaints(self) -> list[str]:
        """Return what a cluster that has come to rest must not show; nothing: it has, and all is well."""
        self._look_at_rows()
        leader = self._world.leader
        if leader is None or not self._leads(leader):
            return [LEADERLESS]
        found = [f"{LINGERS}: {process.name}" for process in self._replaced()]
        for number, job_id in enumerate(self._world.users.job_ids):
            job = Job.objects.defer("graph", "plan", "document").filter(id=job_id).first()
            found += [f"{LEFT}: job {number} is not there"] if job is None else self._about_job(number, job)
        for row in Operation.objects.select_related("job").defer("job__graph", "job__plan", "job__document"):
            found += self._about_operation(row)
        return found + self._about_savepoints() + self._about_taskmanagers()

    def count_operations(self) -> None:
        """Count what was done and what was refused."""
        for kind, result in Operation.objects.filter(result__isnull=False).values_list("kind", "result"):
            self.counts[f"{kind} {'refused' if 'error' in (result or {}) else 'done'}"] += 1

    def _about_job(self, number: int, job: Job) -> list[str]:
        submission = self._world.scenario.submissions[number]
        done = [o for o in Operation.objects.filter(job=job) if o.result is not None and "error" not in o.result]
        found = []
        match job.state:
            case "RUNNING":
                found += self._about_bounds(number, job) + self._about_slots(number, job)
            case "CANCELED" if not [o for o in done if o.kind == Kind.CANCEL or o.parameters.get("cancel_job")]:
                found.append(f"{NO_ANSWER}: job {number} is CANCELED, and nobody was told so")
            case "FINISHED" if not [o for o in done if o.kind == Kind.STOP]:
                found.append(f"{NO_ANSWER}: job {number} is FINISHED, and nobody was told so")
            case "FAILED" if submission.is_restarted:
                found.append(f"{LEFT}: job {number} is FAILED: {job.failure}")
            case state if state not in TERMINAL_STATES and not self._may_wait(job):
                found.append(f"{LEFT}: job {number} is {job.state}: {job.waiting_for}")
        if job.is_terminal and (
            left := [slot.stage.key for slot in self._world.slots() if slot.stage.key[0] == job.id]
        ):
            found.append(f"{MISPLACED}: job {number} is {job.state}, {left} run")
        keeps = job.state == "FAILED" or (job.state == "CANCELED" and submission.keeps_checkpoints)
        directory = self._world.home / "checkpoints" / job.id
        if job.is_terminal and not keeps and directory.exists():
            found.append(f"{LEFTOVERS}: {[path.name for path in directory.iterdir()]} of job {number}")
        document = self._world.redis.documents.get(bus.JOB_KEY.format(job.id))
        told = None if document is None else document["state"]
        # of an ended job readers find the row if the bus has lost the document
        if told != job.state and not (document is None and job.is_terminal):
            found.append(f"{UNTOLD}: job {number} is {job.state}, readers are told {told}")
        return found

    def _about_bounds(self, number: int, job: Job) -> list[str]:
        """Return what is wrong with the parallelisms of a running job."""
        leader = self._world.leader
        assert leader is not None and leader.manager is not None
        runner = leader.manager.jobs.runners.get(job.id)
        if runner is None:
            return []
        has = {v.vertex_id: v.parallelism for v in runner.scaling.graph.vertices}
        bounds = runner.scaling.requirements
        beyond = {v: n for v, n in has.items() if not bounds[v].lower <= n <= bounds[v].upper}
        if beyond:
            return [f"{BEYOND}: job {number} has {beyond} within {bounds}"]
        counts = leader.manager.resources.slots()
        is_less = any(n < bounds[v].upper for v, n in has.items())
        if is_less and counts.free and not counts.lacking:
            return [f"{UNUSED}: job {number} has {has} within {bounds}, {counts.free} slots are free"]
        return []

    def _about_slots(self, number: int, job: Job) -> list[str]:
        """Return what is wrong with the slots of a running job.

        Those of its attempt run, each once and for the leader, and where the next leader will look for them.
        """
        submission, slots = self._world.scenario.submissions[number], self._slots_of(job.id)
        runs = sorted((slot.stage.key[1], int(slot.script.slot), slot.epoch) for slot in slots)
        count = num_slots(rescaled(_submitted(submission), job.vertex_parallelism))
        wanted = [(job.attempt, slot, self.epoch) for slot in range(count)]
        if runs != wanted:
            return [f"{MISPLACED}: of job {number} run (attempt, slot, epoch) {runs}, not {wanted}"]
        rows = Placement.objects.filter(job_id=job.id).values_list("slots", flat=True)
        placed = sorted((slot, pid) for row in rows for slot, pid, *_ in row)
        found = sorted((int(slot.script.slot), slot.pid) for slot in slots) if submission.is_adopted else []
        if placed != found:
            return [f"{MISPLACED}: job {number} runs in (slot, pid) {found}, the next leader looks for {placed}"]
        return []

    def _slots_of(self, job_id: str) -> list[SlotProcess]:
        """Return the slots of a job that live."""
        return [slot for slot in self._world.slots() if slot.stage.key[0] == job_id]

    def _may_wait(self, job: Job) -> bool:
        """Return whether a job waits rightly: others took the slots, which run with what there is."""
        leader = self._world.leader
        if leader is None or leader.manager is None or not any(s.is_elastic for s in self._world.scenario.submissions):
            return False
        counts, runner = leader.manager.resources.slots(), leader.manager.jobs.runners.get(job.id)
        if runner is None or job.id not in counts.lacking:
            return False
        others = sum(count for of, (count, has_run) in counts.lacking.items() if has_run and of != job.id)
        needed = least_slots(runner.scaling.graph, runner.scaling.requirements)
        self.counts["waited"] += 1
        return needed > counts.free - others

    def _about_operation(self, row: Operation) -> list[str]:
        what = f"{row.kind} {row.trigger_id[-4:]}"
        if row.state != Operation.State.COMPLETED or row.result is None:
            return [f"{UNANSWERED}: {what} is {row.state}"]
        if "error" in row.result:
            return self._about_refusal(row)
        state = "" if row.job is None else row.job.state
        has_effect = True
        match row.kind:
            case Kind.CANCEL:
                has_effect = row.result["state"] == state and state in TERMINAL_STATES
            case Kind.STOP:
                has_effect = state == "FINISHED"
            case Kind.SAVEPOINT if row.parameters.get("cancel_job"):
                has_effect = state in TERMINAL_STATES
            case Kind.DISPOSE:
                has_effect = not _path(row.parameters["path"]).exists()
        if has_effect and row.kind in (Kind.SAVEPOINT, Kind.STOP):
            location = row.result["location"]
            disposals = Operation.objects.filter(kind=Kind.DISPOSE, parameters__path=location)
            has_effect = (_path(location) / "_metadata").exists() or disposals.exists()
        return [] if has_effect else [f"{NO_EFFECT}: {what} says {row.result}, the job is {state}"]

    def _about_refusal(self, row: Operation) -> list[str]:
        """Return what is wrong with an operation that was answered with an error: it must have had no effect."""
        if row.kind == Kind.STOP and row.job is not None and row.job.state not in ("FAILED", "CANCELED"):
            directory = (row.progress or {}).get("directory")
            if directory is not None and (_path(directory) / "_metadata").exists():
                return [f"{NOT_FINISHED}: {row.result}"]
        if row.kind != Kind.DISPOSE or _path(row.parameters["path"]).exists():
            return []
        results = [
            result or {}
            for result in Operation.objects.filter(kind=Kind.DISPOSE, parameters=row.parameters).values_list(
                "result", flat=True
            )
        ]
        # told of one that was the only one there: nobody can tell an empty directory from a share that is not mounted
        is_told = any("location" in result or "nothing is left" in result.get("error", "") for result in results)
        return [] if is_told else [f"{NO_ANSWER}: {row.parameters} is gone, the answer was {row.result}"]

    def _about_savepoints(self) -> list[str]:
        """Return the savepoints on disk that no answer names: each operation takes one at most."""
        results = [result or {} for result in Operation.objects.values_list("result", flat=True)]
        told = " ".join(str(result) for result in results)
        found = self._world.home.rglob("savepoint-*")
        self.savepoints = sorted(path.name for path in found if path.is_dir() and any(path.iterdir()))
        return [f"{UNKNOWN_SAVEPOINT}: {name}" for name in self.savepoints if name not in told]

    def _about_taskmanagers(self) -> list[str]:
        living = {process.manager.identity.id for process in self._world.living_taskmanagers()}
        registered = set(TaskManager.objects.filter(state="REGISTERED").values_list("id", flat=True))
        return [] if registered == living else [f"{ROWS}: {sorted(registered)} registered, {sorted(living)} live"]

    # --- small things -------------------------------------------------------------------------------------------------

    def _epoch_of(self, stage: Stage) -> int:
        job_id, attempt, _ = stage.key
        return self._started[job_id, attempt, int(stage.spec.slots[0])]

    def _unended(self) -> list[str]:
        rows = self._rows("SELECT id FROM cluster_job WHERE state NOT IN ('FINISHED', 'CANCELED', 'FAILED')")
        return [job_id for (job_id,) in rows]

    def _name(self, job_id: str) -> str:
        return f"job {int(job_id, 16) - 1}"

    def _rows(self, sql: str) -> list[Any]:
        # past the wrapper: the simulation's looks do not fail
        rows: list[Any] = connection.connection.execute(sql).fetchall()
        return rows


@cache
def _submitted(submission: Submission) -> JobGraph:
    return job_graph_from_json(graph_of(submission))


def _path(location: str) -> Path:
    return Path(location.removeprefix("file://"))

"""Mistakes in the control plane that its simulation must find, each by the rule that stands for it.

Each comes with scenarios, made for it, of which one at least has to find it. Where two guards stand against the same
mistake and either is enough, both are removed.

One mistake is not among them because no run can show it: that a leader which has adopted an attempt sweeps by its own
epoch instead of that which deployed the attempt (`SweepOrphans.leader_epoch`), however far the thread of its storage
lags behind the next trigger. What slots upload for its checkpoints bears its own epoch, which no fence of its own is
above. What they have uploaded under an earlier leader is needed only if a checkpoint of this one refers to it. The
coordinator accepts that for shared files in its registry and refuses the checkpoint for any other
(`RetainedCheckpoints.unknown_among`), whether or not the file is still there. Files of earlier epochs join the registry
when the job is taken over or never, for later checkpoints bring none; and the list of what a sweep spares is made after
that, of all that is registered. So the older fence spares only files to which nothing may refer: it is a second guard,
which no other part relies on. `tests/jobmaster/test_adoption` has a test of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backend.cluster.checkpoint_store import SqlCompletedStore
from backend.cluster.containment import Containment
from backend.cluster.elasticity import ElasticJob
from backend.cluster.job_runner import JobRunner
from backend.cluster.job_scaling import JobScaling
from backend.cluster.job_store import JobStore
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_machine import LeaderMachine
from backend.cluster.leadership import Leadership, LeaseKeeper
from backend.cluster.lease import StandbyWatch
from backend.cluster.led_jobs import LedJobs
from backend.cluster.led_operations import LedOperations
from backend.cluster.models import Operation
from backend.cluster.publisher import Publisher
from backend.cluster.resource_manager import ResourceManager
from backend.cluster.slot_pool import SlotPool
from backend.cluster.slot_provider import ClusterSlotProvider
from backend.cluster.snapshot_disposal import SnapshotDisposal
from backend.cluster.taskmanager import TaskManager
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.retained_checkpoints import RetainedCheckpoints
from runtime.jobmaster.life_cycle import JobMasterMachine
from runtime.jobmaster.restore_reader import RestoreReader
from runtime.jobmaster.storage_worker import StorageWorker
from tests.control_plane.oracle import (
    BEYOND,
    BROKE,
    CHANGED,
    CONTRADICTED,
    CROWDED,
    DELETED,
    DEPOSED,
    DOUBLED,
    FORGOTTEN,
    HASTY,
    LAPSED,
    LEADERLESS,
    LEFT,
    LEFTOVERS,
    MISPLACED,
    NO_ANSWER,
    NO_EFFECT,
    NOT_FINISHED,
    RESTARTED,
    REUSED,
    ROWS,
    STRANDED,
    UNANSWERED,
    UNKNOWN_SAVEPOINT,
    UNTOLD,
    UNUSED,
    ZOMBIE,
)
from tests.control_plane.scenario import (
    PLACEMENT,
    Action,
    CallFault,
    Event,
    Point,
    Request,
    Scenario,
    Submission,
    TimedFault,
    scenario_of,
)
from tests.simulation.mutations import Mutation

Kind = Operation.Kind


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mutation, and where it shows."""

    mutation: Mutation
    scenarios: Sequence[Scenario]
    others: Sequence[Mutation] = ()
    """Made with it: further guards against the same."""


def sql(action: Action, what: str, nth: int = 1, ms: int = 0) -> CallFault:
    return CallFault(Point.SQL, nth, action, ms, what)


def command(action: Action, what: str, ms: int = 0) -> CallFault:
    return CallFault(Point.COMMAND, 1, action, ms, what)


TAKEN = 'COMMIT DELETE FROM "cluster_placement"'
BEGUN = 'COMMIT UPDATE "cluster_operation"'
FORGOTTEN_ROWS = 'COMMIT DELETE FROM "cluster_checkpoint"'
ANSWERED = 'UPDATE "cluster_operation" SET "state" = %s, "result"'
LEADER_DIES = Scenario(1, events=(TimedFault(4_000, Event.KILL_LEADER),))
STOPPED = Scenario(1, requests=(Request(5_000, Kind.STOP, 0),))
#: its leader dies between the savepoint's metadata and its row, and slots do not outlive it
CUT_SHORT = Scenario(
    8,
    submissions=(Submission(0, takes_checkpoints=False),),
    requests=(Request(3_000, Kind.STOP, 0),),
    calls=(sql(Action.KILL, 'COMMIT INSERT INTO "cluster_checkpoint"'),),
)
CANCELLED = Scenario(1, requests=(Request(5_000, Kind.CANCEL, 0),))

#: it may have four slots, and runs with less
ELASTIC = Submission(0, parallelism=4, is_elastic=True)
SCARCE = Scenario(1, taskmanagers=(3,), submissions=(ELASTIC,))
GROWING = Scenario(1, taskmanagers=(2,), submissions=(ELASTIC,), events=(TimedFault(6_000, Event.ADD_TASKMANAGER),))

#: slots of the job go on without a leader
ADOPTED = Scenario(1, submissions=(Submission(0, is_adopted=True),), events=(TimedFault(6_000, Event.KILL_LEADER),))
THAWED = replace(ADOPTED, events=(TimedFault(6_000, Event.FREEZE_LEADER, 7_000),))
#: the first beat after all have stood still is late: a standby could be faster
SUSPENDED = Scenario(
    1,
    calls=(sql(Action.LATE, 'UPDATE "cluster_leaderepoch" SET "beat"', 5, ms=600),),
    events=(TimedFault(5_000, Event.FREEZE_JOBMANAGERS, 4_000),),
)
#: the second checkpoint is recorded, its leader does not hear so, and stands still where it is about to ask again: when
#: it goes on the next one has restored that checkpoint
UNSURE = Scenario(
    1,
    calls=(
        sql(Action.LOSE_ANSWER, 'COMMIT INSERT INTO "cluster_checkpoint"', 2),
        sql(Action.FREEZE, "BEGIN of storage", 3, ms=4_300),
    ),
)

MISTAKES = (
    # --- jobs ---------------------------------------------------------------------------------------------------------
    Mistake(
        Mutation(
            "a job that was taken counts as run",
            JobStore,
            "without_runner",
            "leader_epoch__lte=self._epoch",
            "leader_epoch__lt=self._epoch",
            found_as=STRANDED,
        ),
        [Scenario(1, calls=(sql(Action.LOSE_ANSWER, TAKEN),))],
    ),
    Mistake(
        Mutation(
            "only new jobs are looked for",
            JobStore,
            "without_runner",
            "Job.objects.filter(",
            'Job.objects.filter(state="INITIALIZING", ',
            found_as=STRANDED,
        ),
        [LEADER_DIES],
    ),
    Mistake(
        Mutation(
            "a new leader uses the number of the attempt that was lost",
            LeaderMachine,
            "job",
            "attempt = max(row.attempt, row.stored_attempt) + 1",
            "attempt = row.attempt",
            found_as=REUSED,
        ),
        [LEADER_DIES],
    ),
    Mistake(
        Mutation(
            "a placement that could not be recorded is forgotten",
            JobRunner,
            "record_placements",
            "self._placements_left.write()",
            "pass",
            found_as=RESTARTED,
        ),
        [replace(ADOPTED, calls=(sql(Action.FAIL, PLACEMENT),))],
    ),
    Mistake(
        Mutation(
            "later attempts are not recorded",
            JobRunner,
            "_record_attempt",
            "if attempt <= self._first_attempt:",
            "if True:",
            found_as=REUSED,
        ),
        [
            Scenario(
                1,
                calls=(command(Action.KILL, "deploy 1", 1),),
                events=(TimedFault(3_000, Event.KILL_SLOT),),
            )
        ],
    ),
    Mistake(
        Mutation(
            "an error of the database in one job's work ends the leader",
            Containment,
            "of",
            "self.database_failed = True",
            "raise",
            found_as=BROKE,
        ),
        [Scenario(1, calls=(sql(Action.FAIL, 'FROM "cluster_operation"', 2),))],
    ),
    Mistake(
        Mutation(
            "a save that failed is not repeated",
            LedJobs,
            "_save",
            "document = runner.document()",
            "document = runner.document(); self.unsaved.discard(job.id)",
            found_as=REUSED,
        ),
        [Scenario(1, requests=STOPPED.requests, calls=(sql(Action.FAIL, ANSWERED),))],
    ),
    Mistake(
        Mutation(
            "a job whose row cannot be written fails",
            LedJobs,
            "poll",
            "except (*DATABASE_AWAY, LeadershipLostError):",
            "except LeadershipLostError:",
            found_as=LEFT,
        ),
        [Scenario(1, calls=(sql(Action.FAIL, 'UPDATE "cluster_job"'),))],
    ),
    # --- operations ---------------------------------------------------------------------------------------------------
    Mistake(
        Mutation(
            "a cancellation that was begun is not begun again",
            LeaderMachine,
            "_operation",
            "if row.kind == Operation.Kind.CANCEL:",
            "if row.kind == Operation.Kind.CANCEL and row.is_begun:\n        return None\n"
            "    if row.kind == Operation.Kind.CANCEL:",
            found_as=UNANSWERED,
        ),
        [Scenario(1, requests=CANCELLED.requests, calls=(sql(Action.LOSE_ANSWER, BEGUN),))],
    ),
    Mistake(
        Mutation(
            "an operation that was begun is not begun again",
            LeaderMachine,
            "_operation",
            "if row.trigger_id in runner.requests and not is_premature:",
            "if row.is_begun or row.trigger_id in runner.requests and not is_premature:",
            found_as=UNANSWERED,
        ),
        [
            Scenario(
                1,
                requests=(Request(3_000, Kind.SAVEPOINT, 0),),
                calls=(sql(Action.LOSE_ANSWER, BEGUN),),
            )
        ],
    ),
    Mistake(
        Mutation(
            "an operation is begun again although it is in progress",
            LeaderMachine,
            "_operation",
            "if row.trigger_id in runner.requests and not is_premature:",
            "if False:",
            found_as=NO_ANSWER,
        ),
        [
            Scenario(
                seed,
                requests=(
                    Request(5_000, Kind.STOP, 0),
                    *(Request(5_000 + ms, Kind.CHECKPOINT, 0) for ms in (10, 25, 50, 80)),
                ),
            )
            for seed in range(5)
        ],
    ),
    Mistake(
        Mutation(
            "answers are given again",
            JobStore,
            "_finish",
            "if answered:",
            "operations.update(result=result, finished_at=now)\n    if answered:",
            found_as=CHANGED,
        ),
        [Scenario(1, requests=(Request(3_000, Kind.CHECKPOINT, 0), *CANCELLED.requests))],
    ),
    Mistake(
        Mutation(
            "a disposal is answered before it is done",
            LedOperations,
            "_act",
            "self._disposal.dispose(trigger_id, directory, is_begun=is_begun)",
            "self._store.complete(trigger_id, {'location': directory}, self._clock.now_ms())",
            found_as=NO_EFFECT,
        ),
        [Scenario(1, requests=(Request(3_000, Kind.SAVEPOINT, 0), Request(6_000, Kind.DISPOSE, 0)))],
    ),
    Mistake(
        Mutation(
            "a disposal that was done and not recorded is answered with an error",
            SnapshotDisposal,
            "_dispose",
            "if is_begun and not",
            "if False and not",
            found_as=NO_ANSWER,
        ),
        [
            Scenario(
                1,
                requests=(
                    Request(3_000, Kind.SAVEPOINT, 0),
                    Request(4_000, Kind.SAVEPOINT, 0),
                    Request(6_000, Kind.DISPOSE, 0),
                ),
                calls=(sql(Action.KILL, f"COMMIT {ANSWERED}", 3),),
            )
        ],
    ),
    Mistake(
        Mutation(
            "nobody looks for the savepoint of the leader that ended",
            LedOperations,
            "_left_of",
            "if directory is None or row.kind == Operation.Kind.DISPOSE:",
            "if True:",
            found_as=UNKNOWN_SAVEPOINT,
        ),
        [Scenario(1, requests=(Request(3_000, Kind.SAVEPOINT, 0),), calls=(sql(Action.KILL, f"COMMIT {ANSWERED}"),))],
    ),
    Mistake(
        Mutation(
            "a savepoint to stop with that is not recorded is nobody's business",
            RestoreReader,
            "read",
            "if self._home.left_stop is not None:",
            "if False:",
            found_as=NOT_FINISHED,
        ),
        [CUT_SHORT],
    ),
    Mistake(
        Mutation(
            "the next leader does not know that the job stops",
            RetainedCheckpoints,
            "recover",
            "self._stopped_by = retained[-1].checkpoint_id",
            "pass",
            found_as=NOT_FINISHED,
        ),
        [CUT_SHORT],
    ),
    Mistake(
        Mutation(
            "the attempt behind a savepoint to stop with goes on",
            JobMasterMachine,
            "_deploy",
            "None if stopped_by is None else stopped_by.checkpoint_id",
            "None",
            found_as=UNANSWERED,
        ),
        [CUT_SHORT],
    ),
    Mistake(
        Mutation(
            "it is not recorded where a savepoint goes",
            JobStore,
            "begin",
            ", progress=operation.progress",
            "",
            found_as=UNKNOWN_SAVEPOINT,
        ),
        [Scenario(1, requests=(Request(3_000, Kind.SAVEPOINT, 0),), calls=(sql(Action.KILL, f"COMMIT {ANSWERED}"),))],
    ),
    # --- lease --------------------------------------------------------------------------------------------------------
    Mistake(
        Mutation(
            "the leader does not look whether its lease is valid",
            Leadership,
            "may_act",
            "return not self._is_released and self._lease.is_valid(self._clock.monotonic_ms())",
            "return True",
            found_as=LAPSED,
        ),
        [Scenario(1, events=(TimedFault(5_000, Event.DATABASE_AWAY, 7_000),))],
    ),
    Mistake(
        Mutation(
            "a standby takes over although the beat goes on",
            StandbyWatch,
            "looked",
            "if not is_prompt or self._seen != (row.epoch, row.beat):",
            "if self._seen is None:",
            found_as=DEPOSED,
        ),
        [Scenario(1)],
    ),
    Mistake(
        Mutation(
            "a standby waits for the leader's process to end",
            StandbyWatch,
            "looked",
            "return unchanged_ms >= (",
            "return row.epoch == self._dead_epoch and unchanged_ms >= (",
            found_as=LEADERLESS,
        ),
        [Scenario(1, events=(TimedFault(4_000, Event.FREEZE_LEADER, 9_000),))],
    ),
    Mistake(
        Mutation(
            "a standby takes over after one slow look",
            StandbyWatch,
            "looked",
            "if not is_prompt or self._seen",
            "if self._seen",
            found_as=HASTY,
        ),
        [replace(SUSPENDED, seed=seed) for seed in range(1, 5)],
    ),
    Mistake(
        Mutation(
            "a leader whose lease could not be renewed once never renews it again",
            LeaseKeeper,
            "_run",
            "is_away, wait_ms = True, RETRY_MS",
            "break",
            found_as=STRANDED,
        ),
        [Scenario(1, events=(TimedFault(5_000, Event.DATABASE_AWAY, 3_000),), jobmanagers=1)],
    ),
    Mistake(
        Mutation(
            "a leader that was replaced does not learn that from its lease",
            Leadership,
            "renew",
            "raise self._lost",
            "self._lost = None",
            found_as=DOUBLED,
        ),
        [THAWED],
    ),
    Mistake(
        Mutation(
            "the lease is not renewed",
            LeaseKeeper,
            "_run",
            "self._leadership.renew()",
            "pass",
            found_as=LEADERLESS,
        ),
        [Scenario(1, submissions=(Submission(6_000),), jobmanagers=1)],
    ),
    Mistake(
        Mutation(
            "a write does not look at the epoch",
            Leadership,
            "fenced",
            "if row.epoch != self.epoch:",
            "if False:",
            found_as=ZOMBIE,
        ),
        [Scenario(1, calls=(sql(Action.FREEZE, "BEGIN", nth, 8_000),)) for nth in range(6, 16)],
    ),
    Mistake(
        Mutation(
            "TaskManagers obey every leader",
            TaskManager,
            "_accepts",
            "if epoch < self._epoch:",
            "if False:",
            found_as=ZOMBIE,
        ),
        [
            Scenario(
                1,
                calls=(command(Action.LATE, "deploy 0", 6_000),),
                events=(TimedFault(1_500, Event.KILL_LEADER),),
            )
        ],
    ),
    # --- adoption -----------------------------------------------------------------------------------------------------
    Mistake(
        Mutation(
            "a new leader ends the stages that it does not know before it adopts them",
            ResourceManager,
            "adopt",
            "for stage in stages:",
            "for stage in ():",
            found_as=RESTARTED,
        ),
        [ADOPTED],
    ),
    Mistake(
        Mutation(
            "an attempt that begins leaves standing where the one before it ran",
            JobStore,
            "record_attempt",
            "Placement.objects.filter(job_id=job_id, region__in=regions).delete()",
            "pass",
            found_as=MISPLACED,
        ),
        [replace(ADOPTED, events=(TimedFault(4_000, Event.KILL_SLOT),))],
    ),
    Mistake(
        Mutation(
            "a new leader forgets where a job runs when it takes it",
            JobStore,
            "take",
            "if not adopts:",
            "if True:",
            found_as=RESTARTED,
        ),
        [replace(ADOPTED, events=(*ADOPTED.events, TimedFault(12_000, Event.KILL_LEADER)))],
    ),
    Mistake(
        Mutation(
            "it is not recorded where a job runs before it is deployed",
            ClusterSlotProvider,
            "record_placement",
            "if not self.is_adoptable:",
            "if True:",
            found_as=RESTARTED,
        ),
        [ADOPTED],
    ),
    Mistake(
        Mutation(
            "it is recorded where a job runs some time after it is deployed",
            ClusterSlotProvider,
            "record_placement",
            "self._record_placements(placements)",
            "late = lambda: (threading.Event().wait(2.0), self._record_placements(placements))\n"
            "    threading.Thread(target=late).start()",
            found_as=RESTARTED,
        ),
        [replace(ADOPTED, events=(TimedFault(at_ms, Event.KILL_LEADER),)) for at_ms in range(1_500, 4_000, 500)],
    ),
    # --- checkpoints --------------------------------------------------------------------------------------------------
    Mistake(
        Mutation(
            "the last checkpoint is removed before the end of its job is recorded",
            SqlCompletedStore,
            "remove",
            "self._end_is_saved.wait()",
            "pass",
            found_as=DELETED,
        ),
        [Scenario(seed, requests=CANCELLED.requests) for seed in range(10)],
    ),
    Mistake(
        Mutation(
            "a new leader deletes what ended jobs keep",
            JobStore,
            "leftovers",
            "None if _keeps_checkpoints(job) else _checkpoint_root(job, check)",
            "_checkpoint_root(job, check)",
            found_as=DELETED,
        ),
        [
            Scenario(
                1,
                submissions=(Submission(0, keeps_checkpoints=True),),
                requests=CANCELLED.requests,
                events=(TimedFault(8_000, Event.KILL_LEADER),),
            )
        ],
    ),
    Mistake(
        Mutation(
            "a new leader deletes what is left of a job while slots of the job may write more",
            JobManager,
            "_sweep",
            "self.resources.runs(job_id) or (",
            "False and (",
            found_as=LEFTOVERS,
        ),
        [scenario_of(2012)],
    ),
    Mistake(
        Mutation(
            "the end of a job does not say that checkpoints may be left",
            JobStore,
            "save",
            "job.is_terminal and not disowns",
            "False",
            found_as=LEFTOVERS,
        ),
        [
            Scenario(1, requests=CANCELLED.requests, calls=(sql(Action.KILL, FORGOTTEN_ROWS, nth, ms=1),))
            for nth in (1, 2, 3, 4)
        ],
    ),
    Mistake(
        Mutation(
            "a checkpoint counts although its row is not written",
            SqlCompletedStore,
            "complete",
            "with brief_connection(), self._leadership.fenced():",
            "for _ in ():",
            found_as=FORGOTTEN,
        ),
        [Scenario(1, events=(TimedFault(7_000, Event.KILL_SLOT),))],
    ),
    Mistake(
        Mutation(
            "a JobMaster that was replaced deletes what it takes for given up",
            RetainedCheckpoints,
            "delete",
            "and not self._is_fenced",
            "",
            found_as=DELETED,
        ),
        [replace(UNSURE, calls=(UNSURE.calls[0], sql(Action.FREEZE, "BEGIN of storage", 5, ms=4_300)))],
        others=[
            Mutation(
                "its storage deletes, too",
                StorageWorker,
                "_perform_first",
                "if is_frozen or self._is_fenced:",
                "if is_frozen:",
            )
        ],
    ),
    Mistake(
        Mutation(
            "a JobMaster that was replaced tells slots that a checkpoint was given up, for all that it knows",
            CheckpointCoordinator,
            "_abort",
            "elif not self._retained.is_fenced:",
            "else:",
            found_as=CONTRADICTED,
        ),
        [UNSURE],
    ),
    Mistake(
        Mutation(
            "slots hear that a checkpoint is complete before it is recorded",
            CheckpointCoordinator,
            "_store",
            "pending.stage = Stage.STORING",
            "pending.stage = Stage.STORING; self._actions.append(NotifyComplete(pending.checkpoint_id))",
            found_as=CONTRADICTED,
        ),
        [Scenario(1)],
    ),
    # --- TaskManagers, slots, documents -------------------------------------------------------------------------------
    Mistake(
        Mutation(
            "a TaskManager counts with a slot too many",
            SlotPool,
            "add",
            "_TaskManager(slots)",
            "_TaskManager(slots + 1)",
            found_as=CROWDED,
        ),
        [
            Scenario(
                1,
                taskmanagers=(3,),
                submissions=(Submission(0, parallelism=2), Submission(0, parallelism=2)),
                requests=CANCELLED.requests,
            )
        ],
    ),
    Mistake(
        Mutation(
            "a TaskManager that is silent counts as there",
            ResourceManager,
            "silent",
            "if known.heard_ms < deadline",
            "if False",
            found_as=ROWS,
        ),
        [Scenario(seed, events=(TimedFault(3_000, Event.KILL_TASKMANAGER),)) for seed in range(12)],
    ),
    Mistake(
        Mutation(
            "rows of TaskManagers that have ended stay",
            LeaderMachine,
            "taskmanagers",
            "left = sorted(set(seen.registered) - set(seen.known))",
            "left = list[str]()",
            found_as=ROWS,
        ),
        [Scenario(1, events=(TimedFault(3_000, Event.STOP_TASKMANAGER),))],
    ),
    Mistake(
        Mutation(
            "a stage that its TaskManager does not report keeps its slots",
            ResourceManager,
            "_missing",
            "if stage.key in running:",
            "if True:",
            found_as=LEFT,
        ),
        [Scenario(1, taskmanagers=(1,), calls=(command(Action.LOSE_ANSWER, "deploy 0"),))],
    ),
    Mistake(
        Mutation(
            "the final document of a job is sent once, whether it arrives or not",
            Publisher,
            "_tell_ends",
            'if not self._send(f"job:{job_id}", document):',
            'if self._send(f"job:{job_id}", document) is None:',
            found_as=UNTOLD,
        ),
        [Scenario(1, requests=CANCELLED.requests, events=(TimedFault(4_900, Event.BUS_AWAY, 2_000),))],
    ),
    Mistake(
        Mutation(
            "documents are not published again after the bus has lost them",
            Publisher,
            "_forget_published",
            "self._published.clear()",
            "pass",
            found_as=UNTOLD,
        ),
        [
            Scenario(
                1,
                submissions=(Submission(0, takes_checkpoints=False),),
                # behind the first judgement of what holds the job up, which is the last news of it
                events=(TimedFault(9_000, Event.FLUSH),),
            )
        ],
    ),
    # --- elastic jobs -------------------------------------------------------------------------------------------------
    Mistake(
        Mutation(
            "a job that waits is not told of the slots that there are",
            JobScaling,
            "follow",
            "elif standing is not Standing.WAITS or verdict.is_due:",
            "elif standing is Standing.RUNS:",
            found_as=LEFT,
        ),
        [SCARCE],
    ),
    Mistake(
        Mutation(
            "a running job is not rescaled to what there is",
            JobScaling,
            "follow",
            "if standing is Standing.RUNS and verdict.is_due:",
            "if standing is Standing.RUNS and verdict.at_once:",
            found_as=UNUSED,
        ),
        [GROWING],
    ),
    Mistake(
        Mutation(
            "a job gets slots beyond its upper bounds",
            ElasticJob,
            "fitted",
            "return fitted(self.graph, requirements or self.requirements, slots, self.target)",
            "return {v.vertex_id: min(slots, v.max_parallelism) for v in self.graph.vertices}",
            found_as=BEYOND,
        ),
        [Scenario(1, taskmanagers=(2, 2), submissions=(replace(ELASTIC, parallelism=3),))],
    ),
)

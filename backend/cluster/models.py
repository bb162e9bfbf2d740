"""SQL rows of the cluster: the state that must survive every process. Live metrics are in Redis, not here.

The jobmanager writes jobs, exceptions and TaskManagers, each write under the leader epoch it holds; web processes only
insert jobs, artifacts and operations. Times are epoch milliseconds, as Flink's REST API gives them.
"""

from __future__ import annotations

import os

from django.conf import settings
from django.db import models

TERMINAL_STATES = ("FINISHED", "CANCELED", "FAILED")


def new_id() -> str:
    """Return 32 random hex digits."""
    return os.urandom(16).hex()


class LeaderEpoch(models.Model):
    """The current leader: one row per role. The epoch only grows; it fences every write of the leader.

    Epoch and beat change as `backend.cluster.lease` describes.
    """

    name = models.CharField(max_length=32, primary_key=True)
    epoch = models.BigIntegerField(default=0)
    beat = models.BigIntegerField(default=0)
    """Grows with every renewal of the lease."""
    holder = models.CharField(max_length=255, default="")
    """host:pid; "": nobody leads."""
    address = models.CharField(max_length=255, default="")
    """host:port at which the holder listens while it lives."""
    since = models.BigIntegerField(default=0)
    """Epoch ms."""


class ClusterIdentity(models.Model):
    """Tells this cluster from others that use the same storage: one row, written by whoever needs it first."""

    name = models.CharField(max_length=32, primary_key=True)
    cluster_id = models.CharField(max_length=8)
    """8 random hex digits."""

    @classmethod
    def get_id(cls) -> str:
        """Return the cluster's id."""
        row, _ = cls.objects.get_or_create(name="cluster", defaults={"cluster_id": os.urandom(4).hex()})
        return row.cluster_id


class Artifact(models.Model):
    """An uploaded program (.py, zip or wheel)."""

    id = models.CharField(max_length=64, primary_key=True)
    """SHA-256 of the file, hex."""
    file_name = models.CharField(max_length=255)
    size = models.BigIntegerField()
    uploaded_at = models.BigIntegerField()
    uploaded_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    entry = models.JSONField(default=dict)
    """The entry point: {} for a .py, {"module": name} otherwise."""
    files = models.JSONField(default=list)
    """Paths of its files in the storage of programs, one for each name that it was uploaded under, newest last."""

    @property
    def path(self) -> str:
        """The path of the newest file."""
        return str(self.files[-1])

    @property
    def public_id(self) -> str:
        """The id shown to clients; like a Flink jar's id, a prefix and the file name."""
        return f"{self.id}_{self.file_name}"


class PythonEnvironment(models.Model):
    """The packages that some Python requirements have been resolved to; see `backend.cluster.environment_files`."""

    id = models.CharField(max_length=64, primary_key=True)
    """SHA-256, hex, of the requirements and of what the engine runs on."""
    path = models.CharField(max_length=255)
    """Of its archive, in the storage of environments."""
    size = models.BigIntegerField()
    packages = models.JSONField(default=list)
    """["name==version"] of what is in it."""
    made_at = models.BigIntegerField()
    used_at = models.BigIntegerField(db_index=True)
    """When a program was last planned or run with it."""


class Job(models.Model):
    """A job of the session cluster."""

    id = models.CharField(max_length=32, primary_key=True, default=new_id)
    name = models.CharField(max_length=255)
    state = models.CharField(max_length=16, default="INITIALIZING", db_index=True)
    """Flink's JobStatus; INITIALIZING until a jobmanager has taken the job."""
    state_times = models.JSONField(default=dict)
    """State → epoch ms at which it was last entered."""
    created_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    artifact = models.ForeignKey(Artifact, null=True, on_delete=models.SET_NULL, related_name="jobs")
    program_args = models.JSONField(default=list)
    """With secrets hidden, as in the three columns of options below."""
    configuration = models.JSONField(default=dict)
    submission = models.JSONField(default=dict)
    """Parameters of the submission besides the arguments: {"entry", "parallelism", "configuration"}."""
    withheld = models.TextField(default="", blank=True)
    """Seal of what is hidden in arguments, options, submission and graph; see `backend.cluster.withheld`."""
    tags = models.JSONField(default=list)
    """Words by which people find it, in their order; see `backend.cluster.job_tags`."""
    pinned_metrics = models.JSONField(default=list)
    """[vertex id, metric] of those whose history is kept, too; see `backend.cluster.pinned_metrics`."""
    graph = models.JSONField()
    """runtime.graph.codec's JSON."""
    plan = models.JSONField()
    """Flink's plan shape."""
    parallelism = models.IntegerField()
    vertex_parallelism = models.JSONField(default=dict)
    """Vertex id → parallelism of the vertices rescaled since the submission."""
    requirements = models.JSONField(default=dict)
    """Vertex id → [lower, upper] bound of its parallelism; {}: both are the parallelism that it has."""
    autoscaler_enabled = models.BooleanField(null=True)
    """Whether a user has switched its autoscaler on or off; null: `job.autoscaler.enabled` counts."""
    slots_required = models.IntegerField()
    attempt = models.IntegerField(default=0)
    restarts = models.IntegerField(default=0)
    num_failures = models.IntegerField(default=0)
    """Of all its attempts; only the newest failures have a row."""
    waiting_for = models.TextField(default="", blank=True)
    """Why the job does not run yet; empty if nothing is missing."""
    failure = models.JSONField(null=True)
    """{"message", "stacktrace", "timestamp"} of the failure that ended the job."""
    document = models.JSONField(null=True)
    """The live document at the last change of state."""
    leader_epoch = models.BigIntegerField(default=0)
    """Of the leader that wrote last."""
    may_have_leftovers = models.BooleanField(default=False, db_index=True)
    """Whether it has ended, and the checkpoints that it does not keep may not be deleted yet."""

    class Meta:
        indexes = (models.Index(fields=["created_at"], name="job_by_age"),)

    def __str__(self) -> str:
        return self.name

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES


class JobException(models.Model):
    """A recent failure of a job's attempt: the cause, and the failures suppressed because they follow from it."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="exceptions")
    timestamp = models.BigIntegerField()
    name = models.TextField()
    message = models.TextField()
    stacktrace = models.TextField(default="")
    task_name = models.TextField(default="")
    vertex = models.CharField(max_length=32, default="")
    """Id of the vertex that failed; "" if unknown."""
    location = models.TextField(default="")
    """host:pid of the slot's process."""
    taskmanager = models.CharField(max_length=255, default="")
    """Id of the TaskManager that offered the slot; "" if unknown."""
    attempt = models.IntegerField()
    suppressed = models.JSONField(default=list)
    """[{"name", "message", "task_name"}]."""

    class Meta:
        # an attempt fails once; a later write about it replaces the earlier one
        constraints = (models.UniqueConstraint(fields=["job", "attempt"], name="one_failure_per_attempt"),)


class Checkpoint(models.Model):
    """A completed checkpoint that recovery may start from; it counts as complete because this row exists.

    A savepoint has a row only if its job stops with it; the locations of other savepoints are in their Operation.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="checkpoints")
    checkpoint_id = models.BigIntegerField()
    location = models.TextField()
    """URI of its directory."""
    is_owned = models.BooleanField()
    """Whether the job may delete its files."""
    is_savepoint = models.BooleanField()
    leader_epoch = models.BigIntegerField()
    """Of the leader that completed it."""
    attempt = models.IntegerField(null=True)
    """The attempt that took it; null for savepoints, whose names do not contain it."""
    triggered_at = models.BigIntegerField()
    completed_at = models.BigIntegerField()
    size = models.BigIntegerField()
    """Bytes of all files that it refers to."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job", "checkpoint_id"], name="one_row_per_checkpoint"),)


class CheckpointStatistics(models.Model):
    """Counts and distributions of a job's checkpoints, with which a new leader goes on."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="checkpoint_statistics")
    ended = models.BigIntegerField()
    """Number of checkpoints that are counted; what counts fewer is older."""
    record = models.JSONField()
    """runtime.checkpoint.statistics.StatisticsRecord."""


class Placement(models.Model):
    """Slots and stages of a region of a running job, from which a new leader adopts it instead of restarting it."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="placements")
    region = models.IntegerField()
    attempt = models.IntegerField()
    leader_epoch = models.BigIntegerField()
    """Epoch of the leader that deployed it."""
    protocol = models.IntegerField()
    """Version of the control protocol that its slots speak."""
    parallelism = models.JSONField()
    """Vertex id → parallelism, of all vertices of the job."""
    slots = models.JSONField()
    """[slot, pid, host, address of its data server] of each."""
    stages = models.JSONField()
    """[stage, TaskManager, its slots] of each."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job", "region"], name="one_placement_per_region"),)


class Scaling(models.Model):
    """A change of a job's parallelisms that its autoscaler has decided; the newest ones of a job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="scalings")
    decided_at = models.BigIntegerField()
    """Epoch ms, for display."""
    stamp = models.DateTimeField()
    """The same by the database's clock, by which alone a leader tells its age."""
    reason = models.TextField()
    changes = models.JSONField()
    """Vertex id → {"name", "before", "after", "reason", "true_rate"}; records per second of a subtask before."""
    cost_ms = models.FloatField(null=True)
    """From the trigger of the checkpoint until all tasks ran; null: it was not carried out, or not yet."""

    class Meta:
        indexes = (models.Index(fields=["job", "-id"], name="scaling_by_job"),)


class Operation(models.Model):
    """A change that a user requested; carried out by whichever jobmanager leads."""

    class State(models.TextChoices):
        PENDING = "PENDING"
        IN_PROGRESS = "IN_PROGRESS"
        COMPLETED = "COMPLETED"

    class Kind(models.TextChoices):
        CANCEL = "cancel"
        SAVEPOINT = "savepoint"
        """{"target_directory", "cancel_job", "format"}; CANONICAL or NATIVE."""
        STOP = "stop"
        """{"target_directory", "drain", "format"}."""
        CHECKPOINT = "checkpoint"
        """{"type"}: CONFIGURED, FULL or INCREMENTAL."""
        RESCALE = "rescale"
        """{"parallelism", "lower", "before"}: vertex id → upper bound of its parallelism, lower bound if that is given,
        and the parallelism that it had when this was requested.
        """
        DISPOSE = "dispose"
        """{"path"} of a savepoint; belongs to no job."""

    trigger_id = models.CharField(max_length=32, primary_key=True, default=new_id)
    """Chosen by the client, or random."""
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=32, choices=Kind.choices)
    parameters = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING, db_index=True)
    created_at = models.BigIntegerField()
    finished_at = models.BigIntegerField(null=True)
    follows = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="followers")
    """The same operation, which somebody asked for before: its result becomes the result of this one."""
    progress = models.JSONField(null=True)
    """{"directory", "attempt"} of a savepoint, {"directory"} of a disposal, written before it begins; else null. A stop
    also has "is_given_up": true once its job goes on without the savepoint.
    """
    result = models.JSONField(null=True)
    """{"error"} if it failed; else {"location", "checkpoint_id"} of a snapshot, {"state"} of a cancellation."""
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    def __str__(self) -> str:
        return f"{self.kind} {self.trigger_id}"


class Replacement(models.Model):
    """A job that takes the place of another one, from its savepoint; abstract. `led_replacements` moves it on.

    Ids of what outlives a transaction are chosen with the row, so that asking again is asking for the same.
    """

    id = models.CharField(max_length=32, primary_key=True, default=new_id)
    state = models.CharField(max_length=16, db_index=True)
    """One that `replacement_machine` knows."""
    state_times = models.JSONField(default=dict)
    """State → epoch ms at which it was entered."""
    message = models.TextField(default="")
    """Why it failed or was rolled back."""
    job_id = models.CharField(max_length=32, default=new_id, db_index=True)
    """Of the new job, chosen before that exists."""
    stop_id = models.CharField(max_length=32, default=new_id)
    """Trigger id of the stop of the job that it replaces."""
    cancel_id = models.CharField(max_length=32, default=new_id)
    """Trigger id of the cancellation of the new job, for a rollback."""
    rollback_job_id = models.CharField(max_length=32, default=new_id)
    """Of the job as which what it replaced comes back, chosen before that exists."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.BigIntegerField()

    class Meta:
        abstract = True


class TaskManager(models.Model):
    """A worker process that offers slots."""

    class State(models.TextChoices):
        REGISTERED = "REGISTERED"
        LOST = "LOST"
        GONE = "GONE"

    id = models.CharField(max_length=255, primary_key=True)
    """<host>:<pid>-<6 hex digits>; a restarted process is another TaskManager."""
    worker_name = models.CharField(max_length=255)
    """Its Celery node name, to which commands are sent."""
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    slots = models.IntegerField()
    spark_master = models.CharField(max_length=255)
    registered_at = models.BigIntegerField()
    last_heartbeat = models.BigIntegerField()
    """As of the last change of this row; the current value is in Redis."""
    state = models.CharField(max_length=16, choices=State.choices, default=State.REGISTERED, db_index=True)
    hardware = models.JSONField(default=dict)
    """{"cpu_cores", "physical_memory", "free_memory"}; bytes."""
    epoch = models.BigIntegerField(default=0)
    """Of the leader that wrote last."""

    class Meta:
        verbose_name = "TaskManager"

    def __str__(self) -> str:
        return self.id

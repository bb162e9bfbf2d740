/**
 * The types of everything that comes over the wire: the live documents, the WebSocket messages and the REST responses
 * that this page reads. One file, so that it can be generated from the server's schema as a whole.
 * Times are epoch milliseconds, sizes bytes, rates per second; -1 means "not ended".
 */

export type JobState =
  | 'INITIALIZING'
  | 'CREATED'
  | 'RUNNING'
  | 'FAILING'
  | 'FAILED'
  | 'CANCELLING'
  | 'CANCELED'
  | 'FINISHED'
  | 'RESTARTING'
  | 'SUSPENDED'
  | 'RECONCILING';

export type ExecutionState =
  | 'CREATED'
  | 'SCHEDULED'
  | 'DEPLOYING'
  | 'INITIALIZING'
  | 'RUNNING'
  | 'FINISHED'
  | 'CANCELING'
  | 'CANCELED'
  | 'FAILED'
  | 'RECONCILING';

/** Age of a document at the time of the response, measured by the server with one clock. */
export interface Freshness {
  /** null: no heartbeat since this web process started. */
  age_ms: number | null;
  /** live: from the jobmanager; kept: the last one read; database: saved at the last change of state. */
  source: 'live' | 'kept' | 'database';
  is_stale: boolean;
  /** Why it is stale, a sentence; '' if it is fresh. */
  reason: string;
}

/** Epoch ms; null: none yet; "max": the input has ended. */
export type Watermark = number | 'max' | null;

export interface Metrics {
  records_in: number;
  records_out: number;
  bytes_in: number;
  bytes_out: number;
  records_in_per_second: number;
  records_out_per_second: number;
  bytes_in_per_second: number;
  bytes_out_per_second: number;
  /** ms per second, 0..1000; the three add up to 1000 for one subtask. */
  busy: number;
  idle: number;
  back_pressured: number;
  watermark: Watermark;
  watermark_lag: number | null;
}

export interface Subtask {
  index: number;
  state: ExecutionState;
  attempt: number;
  slot: number | string | null;
  taskmanager: string | null;
  host: string | null;
  pid: number | null;
  start_time: number;
  end_time: number;
  metrics: Metrics;
}

export interface VertexInput {
  id: string;
  ship_strategy: string;
}

export interface Vertex {
  id: string;
  name: string;
  description: string;
  parallelism: number;
  max_parallelism: number;
  /** Bounds of the parallelism; missing in documents of an earlier version. */
  lower_bound?: number;
  upper_bound?: number;
  slot_sharing_group: string;
  state: ExecutionState;
  inputs: VertexInput[];
  is_source: boolean;
  is_sink: boolean;
  /** `defined_at` is a place in the program, "file:line"; missing in documents of earlier versions. */
  operators: { name: string; uid: string; defined_at?: string }[];
  start_time: number;
  end_time: number;
  metrics: Metrics;
  subtasks: Subtask[];
}

export interface JobException {
  timestamp: number;
  name: string;
  message: string;
  stacktrace: string;
  task_name: string;
  location: string;
  attempt: number;
  suppressed: { name: string; message: string; task_name: string }[];
}

/** A call of user code that does not return; `vertex` is "" and `subtask` -1 if the task is unknown. */
export interface Stall {
  vertex: string;
  subtask: number;
  task_name: string;
  slot: number;
  since: number;
  stack: string;
}

/** Summary of a job's latest failure; `JobException` has the rest. */
export type JobFailure = Pick<JobException, 'timestamp' | 'name' | 'message' | 'task_name' | 'attempt'>;

/** The present decision of a job's autoscaler; the rest only while it is enabled. */
export interface JobAutoscaler {
  enabled: boolean;
  /** What it does, or why it does nothing. */
  reason?: string;
  /** By vertex id; empty while there are not enough samples. */
  vertices?: Record<string, { wanted: number; reason: string }>;
  /** Id of its last decision; null: there is none. */
  last_decision?: number | null;
}

export interface JobDocument {
  id: string;
  name: string;
  state: JobState;
  attempt: number;
  restarts: number;
  start_time: number;
  end_time: number;
  duration: number;
  now: number;
  version: number;
  waiting_for: string;
  /** Why it runs with less than its upper bounds; '': it does not. Missing in documents of an earlier version. */
  scaling?: string;
  max_parallelism: number;
  parallelism: number;
  vertices: Vertex[];
  /** The newest cause since the submission; null: none. Documents of an earlier version lack this and the next two. */
  failure?: JobFailure | null;
  /** Total number of failures; `exceptions` has the latest. */
  failures?: number;
  /** Time of the next attempt; -1: none is scheduled. */
  next_attempt_at?: number;
  /** Calls of user code that have not returned for some seconds. */
  stalls?: Stall[];
  /** {} once the job has ended; missing in documents of an earlier version. */
  autoscaler?: Partial<JobAutoscaler>;
  exceptions: JobException[];
  /** Present in documents read over REST; the socket sends it separately. */
  freshness?: Freshness;
  /** Missing in documents of jobs that ended under an earlier version. */
  checkpoints?: JobCheckpoints;
}

export type CheckpointState = 'IN_PROGRESS' | 'COMPLETED' | 'FAILED';

/** A checkpoint or savepoint without its vertices. */
export interface CheckpointEntry {
  id: number;
  status: CheckpointState;
  type: 'CHECKPOINT' | 'UNALIGNED_CHECKPOINT' | 'SAVEPOINT' | 'SYNC_SAVEPOINT';
  is_savepoint: boolean;
  /** For savepoints only. */
  format?: 'CANONICAL' | 'NATIVE';
  trigger_timestamp: number;
  /** -1: none yet. */
  latest_ack_timestamp: number;
  end_to_end_duration: number;
  /** Newly written. */
  checkpointed_size: number;
  /** Everything it refers to. */
  state_size: number;
  /** In-flight data: processed during the alignment, and persisted. */
  processed_data: number;
  persisted_data: number;
  metadata_size: number;
  num_subtasks: number;
  num_acknowledged_subtasks: number;
  external_path: string;
  /** Its files have been deleted. */
  discarded: boolean;
  failure_timestamp?: number;
  failure_message?: string;
}

/** Over all completed checkpoints. */
export interface CheckpointSummary {
  min: number;
  max: number;
  avg: number;
  p50?: number;
  p90?: number;
  p95?: number;
  p99?: number;
  p999?: number;
}

export type SummarisedQuantity =
  'checkpointed_size' | 'state_size' | 'end_to_end_duration' | 'processed_data' | 'persisted_data';

export interface CheckpointConfig {
  /** Missing: no periodic checkpoints. */
  interval?: number;
  mode: 'exactly_once' | 'at_least_once';
  timeout: number;
  min_pause: number;
  max_concurrent: number;
  tolerable_failures: number;
  num_retained: number;
  retention: 'no_externalized_checkpoints' | 'delete_on_cancellation' | 'retain_on_cancellation';
  unaligned: boolean;
  aligned_timeout: number;
  incremental: boolean;
  after_tasks_finish: boolean;
  state_backend: string;
  directory?: string;
  savepoint_directory?: string;
}

export interface RestoredOperator {
  uid: string;
  name: string;
  /** null: it is not in the snapshot. */
  saved_parallelism: number | null;
  /** null: it is not in the job. */
  parallelism: number | null;
}

/** How the restored state was matched with operators. */
export interface RestoreReport {
  location: string;
  checkpoint_id: number;
  is_savepoint: boolean;
  matched: RestoredOperator[];
  dropped: RestoredOperator[];
  new: RestoredOperator[];
}

export interface JobCheckpoints {
  config: CheckpointConfig;
  counts: { restored: number; total: number; in_progress: number; completed: number; failed: number };
  summary: Partial<Record<SummarisedQuantity, CheckpointSummary>>;
  latest: {
    completed?: CheckpointEntry;
    failed?: CheckpointEntry;
    savepoint?: CheckpointEntry;
    restored?: { id: number; restore_timestamp: number; is_savepoint: boolean; external_path: string };
  };
  /** By id, the last ten. */
  history: Record<string, CheckpointEntry>;
  restore_report?: RestoreReport;
}

export interface TaskManagerSummary {
  id: string;
  host: string;
  pid: number;
  slots: number;
  free_slots: number;
  last_heartbeat: number;
  registered_at: number;
  state: 'REGISTERED' | 'DRAINING' | 'LOST' | 'GONE';
  spark_master: string;
  cpu_cores: number;
  physical_memory: number;
  free_memory: number;
}

export interface JobSummary {
  id: string;
  name: string;
  state: JobState;
  start_time: number;
  end_time: number;
  duration: number;
  parallelism: number;
  tasks: Partial<Record<ExecutionState, number>>;
  tasks_total: number;
  restarts: number;
  waiting_for: string;
  /** Completion time of the latest checkpoint; null: there is none. */
  last_checkpoint?: number | null;
}

export interface ClusterDocument {
  version: number;
  now: number;
  slots_total: number;
  slots_available: number;
  taskmanagers: TaskManagerSummary[];
  jobs: JobSummary[];
  freshness?: Freshness;
}

export interface JobManager {
  /** host:pid */
  id: string;
  role: 'LEADER' | 'STANDBY';
  /** null: it does not lead. */
  epoch: number | null;
  leading_since: number | null;
  /** false: it has not been seen for 5 s; null: unknown. */
  is_alive: boolean | null;
}

export interface JobManagers {
  /** The leader first. */
  jobmanagers: JobManager[];
  redis_answers: boolean;
}

// ---------------------------------------------------------------------------------------------------- WebSocket

export type Topic = 'cluster' | `job:${string}`;

export type ClientMessage =
  { type: 'subscribe'; topic: Topic } | { type: 'unsubscribe'; topic: Topic } | { type: 'ping' };

export type ServerMessage =
  | { type: 'snapshot'; topic: Topic; version: number; data: unknown; freshness?: Freshness }
  | { type: 'change'; topic: Topic; from: number; version: number; patch: unknown; freshness?: Freshness }
  | { type: 'gone'; topic: Topic }
  | { type: 'error'; topic: Topic; message: string }
  | { type: 'tick'; now: number; freshness?: Partial<Record<Topic, Freshness>> }
  | { type: 'pong'; now: number };

// --------------------------------------------------------------------------------------------------- product REST

export type Role = 'viewer' | 'operator' | 'developer' | 'admin';

export interface Session {
  user: { name: string; role: Role };
}

export interface LogFile {
  name: string;
  attempt: number;
  slot: number;
  kind: 'out' | 'log';
  size: number;
  /** Epoch ms. */
  mtime: number;
}

/** A number, a boolean or a string; integers beyond 2^53 are strings. */
export type MetricValue = number | boolean | string;

/** An operator of a chain; its metrics' ids begin with the scope and a dot. */
export interface MetricOperator {
  id: string;
  name: string;
  /** The name as ids have it, with a number behind it if an operator before it has the same. */
  scope: string;
}

/** All metrics of a vertex, by Flink's ids; values by index of the subtasks that report it. */
export interface VertexMetrics {
  subtasks: number[];
  operators: MetricOperator[];
  metrics: { id: string; values: Record<string, MetricValue> }[];
}

/** An operation requested by a user; the leading jobmanager carries it out. */
export interface Operation {
  trigger_id: string;
  kind: 'cancel' | 'savepoint' | 'stop' | 'checkpoint' | 'rescale';
  state: 'PENDING' | 'IN_PROGRESS' | 'COMPLETED';
  created_at: number;
  finished_at: number | null;
  result: { error?: string; location?: string | null; checkpoint_id?: number | null; state?: string } | null;
  requested_by: string | null;
}

/** A job's autoscaler, with what it has decided, newest first. */
export interface Autoscaler {
  enabled: boolean;
  /** What a user has switched it to; null: its configuration counts. */
  switched: boolean | null;
  reason: string;
  vertices: Record<string, { wanted: number; reason: string }>;
  decisions: ScalingDecision[];
}

export interface ScalingDecision {
  id: number;
  decided_at: number;
  reason: string;
  /** From the trigger of the checkpoint until all tasks ran; null: it has not come about, or not yet. */
  cost_ms: number | null;
  /** By vertex id. */
  changes: Record<string, { name: string; before: number; after: number; reason: string }>;
}

/** Snapshots from which a job can be started again, newest first, and its program's settings. */
export interface RestorePoints {
  program: {
    id: string;
    name: string;
    args: string[];
    entry: string | null;
    parallelism: number | null;
    configuration: Record<string, string>;
    /** Secret options, which must be entered again. */
    hidden: string[];
  } | null;
  points: RestorePoint[];
}

export interface RestorePoint {
  /** start: the snapshot that the job itself was started from. */
  kind: 'checkpoint' | 'savepoint' | 'start';
  location: string;
  checkpoint_id: number | null;
  timestamp: number;
  size: number | null;
}

export interface Savepoint {
  location: string;
  job_id: string;
  job_name: string;
  job_state: JobState;
  created_at: number;
  size: number | null;
  /** stop: the job ended with it. */
  kind: 'savepoint' | 'stop';
  format: 'CANONICAL' | 'NATIVE';
  checkpoint_id: number | null;
  requested_by: string | null;
  /** null: unknown at present. */
  exists: boolean | null;
  used_by: { job_id: string; job_name: string; job_state: JobState; claim_mode: string }[];
  /** The job that needs it and prevents disposing of or claiming it. */
  needed_by: string | null;
}

export interface Savepoints {
  savepoints: Savepoint[];
}

export interface DisposalStatus {
  status: { id: 'IN_PROGRESS' | 'COMPLETED' };
  operation?: { 'failure-cause'?: { class: string; 'stack-trace': string } };
}

export interface LogFiles {
  files: LogFile[];
}

export interface LogText {
  name: string;
  offset: number;
  next_offset: number;
  size: number;
  text: string;
  /** Number of the text's first line, from 1. */
  first_line: number;
  /** Of the whole file. */
  lines: number;
}

export interface LogMatch {
  /** From 1. */
  line: number;
  /** Byte offset of the line. */
  offset: number;
  text: string;
}

/** Lines of a whole file that contain a text. */
export interface LogSearch {
  name: string;
  query: string;
  size: number;
  lines: number;
  matches: LogMatch[];
  searched_to: number;
  /** false: continue from `searched_to`. */
  is_complete: boolean;
}

// ----------------------------------------------------------------------------------------------------- Flink REST

export interface FlinkConfig {
  'flink-version': string;
  'flink-revision': string;
  'tidemark-version'?: string;
  'refresh-interval': number;
  features: { 'web-submit': boolean; 'web-cancel': boolean };
}

export interface Accumulator {
  name: string;
  type: string;
  value: string;
}

export interface VertexAccumulators {
  id: string;
  'user-accumulators': Accumulator[];
}

export interface SubtasksAccumulators {
  id: string;
  parallelism: number;
  subtasks: { subtask: number; attempt: number; endpoint: string; 'user-accumulators': Accumulator[] }[];
}

export interface JarFile {
  id: string;
  name: string;
  uploaded: number;
  size?: number;
  entry: { name: string; description: string | null }[];
}

export interface JarList {
  address: string;
  files: JarFile[];
}

export interface JarUploaded {
  filename: string;
  status: string;
}

export interface RunRequest {
  entryClass?: string;
  programArgsList?: string[];
  parallelism?: number;
  flinkConfiguration?: Record<string, string>;
  savepointPath?: string;
  allowNonRestoredState?: boolean;
  claimMode?: ClaimMode;
}

export type ClaimMode = 'NO_CLAIM' | 'CLAIM';

export interface CheckpointTask {
  status: CheckpointState;
  latest_ack_timestamp: number;
  checkpointed_size: number;
  state_size: number;
  end_to_end_duration: number;
  processed_data: number;
  persisted_data: number;
  num_subtasks: number;
  num_acknowledged_subtasks: number;
}

/** One checkpoint with its vertices, by id. */
export interface CheckpointDetails {
  id: number;
  tasks: Record<string, CheckpointTask>;
}

export type CheckpointSubtask =
  | { index: number; status: 'pending_or_failed' }
  | {
      index: number;
      status: 'completed';
      ack_timestamp: number;
      end_to_end_duration: number;
      checkpointed_size: number;
      state_size: number;
      checkpoint: { sync: number; async: number };
      alignment: { processed: number; persisted: number; duration: number };
      start_delay: number;
      unaligned_checkpoint: boolean;
    };

export interface CheckpointSubtasks {
  subtasks: CheckpointSubtask[];
}

export interface Triggered {
  'request-id': string;
}

export interface RunAnswer {
  jobid: string;
  /** What the program should do better. */
  warnings?: string[];
  /** The end of its output until the job was started. */
  output?: string;
}

export interface PlanNode {
  id: string;
  parallelism: number;
  operator: string;
  operator_strategy: string;
  description: string;
  inputs?: { id: string; num: number; ship_strategy: string; exchange: string }[];
}

export interface Plan {
  jid: string;
  name: string;
  type: string;
  nodes: PlanNode[];
}

export interface PlanAnswer {
  plan: Plan;
  /** What the program should do better. */
  warnings?: string[];
  /** The end of its output. */
  output?: string;
}

export interface JobConfig {
  jid: string;
  name: string;
  'execution-config': {
    'restart-strategy': string;
    'job-parallelism': number;
    'object-reuse-mode': boolean;
    'user-config': Record<string, string>;
  };
}

export interface TaskManagerDetail {
  id: string;
  path: string;
  slotsNumber: number;
  freeSlots: number;
  timeSinceLastHeartbeat: number;
  hardware: { cpuCores: number; physicalMemory: number; freeMemory: number; managedMemory: number };
  allocatedSlots?: { jobId: string; assignedTasks?: number }[];
}

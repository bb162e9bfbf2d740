/** Documents for tests. */

import type {
  CheckpointEntry,
  CheckpointTrace,
  ExecutionState,
  Figures,
  JobCause,
  JobCheckpoints,
  JobException,
  JobSummary,
  LiveJob,
  MovingJob,
  StaticVertex,
  SubtaskTrace,
} from '../gen/contract';
import type { Metrics, Vertex } from './job';
import type { Told } from './notices';

export function metrics(overrides: Partial<Metrics> = {}): Metrics {
  return {
    records_in: 0,
    records_out: 0,
    bytes_in: 0,
    bytes_out: 0,
    records_in_per_second: 0,
    records_out_per_second: 0,
    bytes_in_per_second: 0,
    bytes_out_per_second: 0,
    busy: 0,
    idle: 1000,
    back_pressured: 0,
    watermark: null,
    state_size: null,
    ...overrides,
  };
}

/** A row as it is sent. */
export function figures(overrides: Partial<Metrics> = {}): Figures {
  const { watermark, state_size, ...numbers } = metrics(overrides);
  return [...Object.values(numbers), watermark, state_size] as Figures;
}

const STATUS = { state: 'RUNNING' as ExecutionState, parallelism: 1, start_time: 0, end_time: -1 };

function staticVertex(id: string, inputs: readonly string[]): StaticVertex {
  return {
    name: id,
    description: id,
    max_parallelism: 128,
    slot_sharing_group: 'default',
    inputs: inputs.map((input) => ({ id: input, edge: `${input}-${id}`, ship_strategy: 'HASH', side_output: '' })),
    is_source: inputs.length === 0,
    is_sink: false,
    operators: [`${id}-uid`],
  };
}

export function vertex(id: string, inputs: string[] = [], overrides: Partial<Vertex> = {}): Vertex {
  return { ...staticVertex(id, inputs), ...STATUS, id, operators: [], ...overrides };
}

/** The live document of a job of vertices, each with its inputs; all of their figures are those of an idle one. */
export function liveJob(
  vertices: Readonly<Record<string, readonly string[]>>,
  moving: Partial<MovingJob> = {},
  version = 1,
): LiveJob {
  const order = Object.keys(vertices);
  const byId = <T>(make: (id: string) => T) => Object.fromEntries(order.map((id) => [id, make(id)]));
  return {
    version,
    now: 0,
    static: {
      id: 'a'.repeat(32),
      name: 'job',
      start_time: 0,
      max_parallelism: 128,
      order,
      vertices: byId((id) => staticVertex(id, vertices[id] ?? [])),
      operators: Object.fromEntries(order.map((id) => [`${id}-uid`, { id: `${id}-id`, name: `operator of ${id}` }])),
    },
    moving: {
      job: { state: 'RUNNING', attempt: 1, restarts: 0, end_time: -1, waiting_for: '', parallelism: 1 },
      vertices: byId(() => ({ ...STATUS })),
      figures: byId(() => figures()),
      edges: {},
      exceptions: {},
      stalls: {},
      operations: {},
      ...moving,
    },
    derived: { causes: {} },
  };
}

export function cause(vertexId: string, overrides: Partial<JobCause> = {}): JobCause {
  return { cause: 'busy', vertex: vertexId, text: 'is busy', figures: {}, waiting: [], ...overrides };
}

export function jobSummary(id: string, overrides: Partial<JobSummary> = {}): JobSummary {
  return {
    id,
    name: id,
    state: 'RUNNING',
    start_time: 0,
    end_time: -1,
    duration: 0,
    parallelism: 1,
    tasks: {},
    tasks_total: 0,
    restarts: 0,
    waiting_for: '',
    last_checkpoint: null,
    records_in_per_second: 0,
    behind: null,
    lag: null,
    limit: null,
    ...overrides,
  };
}

export function job(overrides: Partial<Told> = {}): Told {
  return {
    id: 'a'.repeat(32),
    name: 'job',
    state: 'RUNNING',
    attempt: 1,
    restarts: 0,
    start_time: 0,
    end_time: -1,
    waiting_for: '',
    max_parallelism: 128,
    parallelism: 1,
    exceptions: [],
    stalls: [],
    operations: [],
    ...overrides,
  };
}

export function jobException(overrides: Partial<JobException> = {}): JobException {
  return {
    timestamp: 0,
    name: 'ValueError',
    message: 'broke',
    stacktrace: '',
    task_name: 'map (1/1)',
    location: '',
    attempt: 1,
    suppressed: [],
    ...overrides,
  };
}

export function checkpoint(id: number, overrides: Partial<CheckpointEntry> = {}): CheckpointEntry {
  return {
    id,
    status: 'COMPLETED',
    type: 'CHECKPOINT',
    is_savepoint: false,
    trigger_timestamp: 0,
    latest_ack_timestamp: 0,
    end_to_end_duration: 0,
    checkpointed_size: 0,
    state_size: 0,
    processed_data: 0,
    persisted_data: 0,
    metadata_size: 0,
    num_subtasks: 1,
    num_acknowledged_subtasks: 1,
    external_path: `file:///checkpoints/chk-${id}`,
    discarded: false,
    ...overrides,
  };
}

export function checkpoints(overrides: Partial<JobCheckpoints> = {}): JobCheckpoints {
  return {
    config: {
      interval: 5000,
      mode: 'exactly_once',
      timeout: 600_000,
      min_pause: 0,
      max_concurrent: 1,
      tolerable_failures: 0,
      num_retained: 1,
      retention: 'no_externalized_checkpoints',
      unaligned: false,
      aligned_timeout: 0,
      incremental: false,
      after_tasks_finish: true,
      state_backend: 'hashmap',
    },
    counts: { restored: 0, total: 0, in_progress: 0, completed: 0, failed: 0 },
    summary: {},
    latest: {},
    history: {},
    ...overrides,
  };
}

export function subtaskTrace(overrides: Partial<SubtaskTrace> = {}): SubtaskTrace {
  return {
    vertex: 'window',
    name: 'Window',
    index: 0,
    end_to_end_duration: 800,
    is_unaligned: false,
    phases: { 'start-delay': 20, alignment: 700, sync: 5, async: 60, rest: 15 },
    ...overrides,
  };
}

export function checkpointTrace(id: number, overrides: Partial<CheckpointTrace> = {}): CheckpointTrace {
  return {
    id,
    status: 'COMPLETED',
    type: 'CHECKPOINT',
    trigger_timestamp: 1_000,
    duration: 830,
    num_subtasks: 4,
    num_acknowledged_subtasks: 4,
    text: '',
    subtasks: [subtaskTrace()],
    ...overrides,
  };
}

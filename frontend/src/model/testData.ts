/** Documents for tests. */

import type { JobSummary, Metrics, Subtask, Vertex } from '../gen/live';

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
    watermark_lag: null,
    ...overrides,
  };
}

export function subtask(index: number, overrides: Partial<Metrics> = {}): Subtask {
  return {
    index,
    state: 'RUNNING',
    attempt: 1,
    slot: index,
    taskmanager: 'tm',
    host: 'host',
    pid: 1,
    start_time: 0,
    end_time: -1,
    metrics: metrics(overrides),
  };
}

export function vertex(id: string, inputs: string[] = [], overrides: Partial<Vertex> = {}): Vertex {
  return {
    id,
    name: id,
    description: id,
    parallelism: 1,
    max_parallelism: 128,
    slot_sharing_group: 'default',
    state: 'RUNNING',
    inputs: inputs.map((input) => ({ id: input, ship_strategy: 'HASH' })),
    is_source: inputs.length === 0,
    is_sink: false,
    operators: [],
    start_time: 0,
    end_time: -1,
    metrics: metrics(),
    subtasks: [],
    ...overrides,
  };
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
    ...overrides,
  };
}

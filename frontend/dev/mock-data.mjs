// A cluster that does not exist, moving as a real one would. For the mock server only.

const HOUR = 3_600_000;
const start = Date.now();

export const ids = {
  flights: 'f1a9d3c07b5e4d2a8c6b1e0f9a7d5c31',
  nexmark: '0b7c2e9a4f6d4c1e9b8a7d6c5e4f3a2b',
  failing: '5d4c3b2a1f0e4d9c8b7a6f5e4d3c2b1a',
  waiting: '9e8d7c6b5a4f4e3d2c1b0a9f8e7d6c5b',
  finished: '3a2b1c0d9e8f4a7b6c5d4e3f2a1b0c9d',
  long: '1'.repeat(32),
  canceled: '7f6e5d4c3b2a4f1e0d9c8b7a6f5e4d3c',
};
const TASKMANAGERS = ['tide-1:2101-a3f09c', 'tide-2:1877-0be4d1'];

let cancelled = new Map();
export function cancel(id) {
  cancelled.set(id, Date.now());
}

const wave = (now, period, phase = 0) => Math.sin((now / 1000 / period) * 2 * Math.PI + phase);

function metrics(now, options) {
  const { rateIn, rateOut, busy, backPressured = 0, watermark = null, since = start - 754_000, ended = null } = options;
  const seconds = ((ended ?? now) - since) / 1000;
  const live = ended === null;
  const bytes = 74;
  return {
    records_in: Math.round(rateIn * seconds),
    records_out: Math.round(rateOut * seconds),
    bytes_in: Math.round(rateIn * seconds * bytes),
    bytes_out: Math.round(rateOut * seconds * bytes),
    records_in_per_second: live ? rateIn : 0,
    records_out_per_second: live ? rateOut : 0,
    bytes_in_per_second: live ? rateIn * bytes : 0,
    bytes_out_per_second: live ? rateOut * bytes : 0,
    busy: live ? Math.round(busy) : 0,
    back_pressured: live ? Math.round(backPressured) : 0,
    idle: live ? 1000 - Math.round(busy) - Math.round(backPressured) : 1000,
    watermark,
    watermark_lag: typeof watermark === 'number' ? now - watermark : null,
  };
}

function vertex(now, id, name, inputs, parallelism, state, options, extra = {}) {
  const part = (index) => ({
    ...options,
    rateIn: (options.rateIn / parallelism) * (1 + 0.12 * wave(now, 9, index)),
    rateOut: (options.rateOut / parallelism) * (1 + 0.12 * wave(now, 9, index)),
    busy: Math.max(0, Math.min(990 - (options.backPressured ?? 0), options.busy * (1 + 0.2 * wave(now, 7, index)))),
    watermark: typeof options.watermark === 'number' ? options.watermark - index * 60_000 : options.watermark,
  });
  const subtasks = Array.from({ length: parallelism }, (_, index) => ({
    index,
    state,
    attempt: 1,
    slot: index,
    taskmanager: state === 'CREATED' ? '' : TASKMANAGERS[index % 2],
    host: state === 'CREATED' ? '' : TASKMANAGERS[index % 2].split(':')[0],
    pid: state === 'CREATED' ? null : 31_400 + index,
    start_time: state === 'CREATED' ? -1 : (options.since ?? start - 754_000),
    end_time: options.ended ?? -1,
    metrics: metrics(now, part(index)),
  }));
  const sum = (key) => subtasks.reduce((total, task) => total + task.metrics[key], 0);
  const total = metrics(now, options);
  for (const key of Object.keys(total)) if (/^(records|bytes)/.test(key)) total[key] = sum(key);
  total.busy = Math.max(...subtasks.map((task) => task.metrics.busy));
  total.back_pressured = Math.max(...subtasks.map((task) => task.metrics.back_pressured));
  total.idle = Math.min(...subtasks.map((task) => task.metrics.idle));
  return {
    id,
    name,
    description: name,
    parallelism,
    max_parallelism: 128,
    slot_sharing_group: 'default',
    state,
    inputs: inputs.map(([from, ship_strategy]) => ({ id: from, ship_strategy })),
    is_source: inputs.length === 0,
    is_sink: extra.is_sink ?? false,
    reads_schema: extra.reads_schema ?? false,
    operators: name.split(' -> ').map((operator, index) => ({ name: operator, uid: `${id.slice(0, 6)}-${index}` })),
    start_time: state === 'CREATED' ? -1 : (options.since ?? start - 754_000),
    end_time: options.ended ?? -1,
    metrics: total,
    subtasks,
  };
}

const trace = `Traceback (most recent call last):
  File "runtime/task/task.py", line 212, in process
    self._chain.process_batch(batch)
  File "runtime/operators/map_operators.py", line 61, in process_batch
    values = [function(value) for value in batch.values]
  File "enrich_orders.py", line 38, in enrich
    return {**order, "rate": RATES[order["currency"]]}
KeyError: 'XBT'`;

const exception = (time, attempt) => ({
  timestamp: time,
  name: 'KeyError',
  message: "'XBT'",
  stacktrace: trace,
  task_name: 'Map: enrich (2/4)',
  location: 'tide-2:1877-0be4d1',
  attempt,
  suppressed:
    attempt % 2
      ? [{ name: 'SlotLost', message: 'slot 3 was lost: its stage ended', task_name: 'Sink: print (4/4)' }]
      : [],
});

function job(id, name, state, now, more) {
  const since = more.start_time ?? start - 754_000;
  const end = more.end_time ?? -1;
  return {
    id,
    name,
    state,
    attempt: 1,
    restarts: 0,
    start_time: since,
    end_time: end,
    duration: (end < 0 ? now : end) - since,
    now,
    version: now,
    waiting_for: '',
    max_parallelism: 128,
    parallelism: 2,
    vertices: [],
    exceptions: [],
    ...more,
  };
}

function flights(now) {
  const over = cancelled.get(ids.flights);
  const state = over === undefined ? 'RUNNING' : now - over < 3000 ? 'CANCELLING' : 'CANCELED';
  const task = state === 'RUNNING' ? 'RUNNING' : state === 'CANCELLING' ? 'CANCELING' : 'CANCELED';
  const rate = 1240 * (1 + 0.3 * wave(now, 40)) + 60 * wave(now, 3);
  const mark = Date.UTC(2013, 3, 2) + (now - start + 754_000) * 3600;
  const common = over === undefined ? {} : { ended: over };
  return job(ids.flights, 'flights: worst delay of every hour', state, now, {
    ...(state === 'CANCELED' ? { end_time: over + 3000 } : {}),
    derived: { event_time: { newest: mark, is_live: false, held_by: {} } },
    parallelism: 2,
    vertices: [
      vertex(now, 'a1b2c3d4e5f60718', 'Source: flights -> parse -> with departure', [], 2, task, {
        rateIn: rate,
        rateOut: rate * 0.975,
        busy: 320,
        watermark: mark,
        ...common,
      }),
      vertex(now, 'b2c3d4e5f6071829', 'Window: 1 h tumbling, max delay', [['a1b2c3d4e5f60718', 'HASH']], 2, task, {
        rateIn: rate * 0.975,
        rateOut: 3.2 + wave(now, 5),
        busy: 540,
        watermark: mark - 7_200_000,
        ...common,
      }),
      vertex(
        now,
        'c3d4e5f607182930',
        'Sink: worst flights',
        [['b2c3d4e5f6071829', 'FORWARD']],
        2,
        task,
        { rateIn: 3.2 + wave(now, 5), rateOut: 3.2 + wave(now, 5), busy: 12, watermark: mark - 7_200_000, ...common },
        { is_sink: true },
      ),
      vertex(
        now,
        'd4e5f60718293041',
        'Sink: late flights',
        [['b2c3d4e5f6071829', 'REBALANCE']],
        1,
        task,
        { rateIn: 0.4, rateOut: 0.4, busy: 2, watermark: mark - 7_200_000, ...common },
        { is_sink: true },
      ),
    ],
  });
}

/** A name without a blank, as long as a program may give one. */
function longName(now) {
  const name = 'a_job_whose_name_somebody_has_generated_'.repeat(5);
  return job(ids.long, name, 'RUNNING', now, {
    vertices: [
      vertex(now, 'dd01', `Source:${name}`, [], 2, 'RUNNING', { rateIn: 45.7, rateOut: 45.7, busy: 100 }),
      vertex(now, 'dd02', `Sink:${name}`, [['dd01', 'HASH']], 2, 'RUNNING', { rateIn: 45.7, rateOut: 45.7, busy: 90 }),
    ],
  });
}

function nexmark(now) {
  const rate = 412_000 * (1 + 0.05 * wave(now, 20));
  const mark = now - 2_300;
  const limit = {
    cause: 'busy',
    vertex: '33cc',
    text: 'is busy 93 % of the time; 2 vertices upstream of it are back-pressured',
    figures: { busy: 930, running: 910 },
    waiting: ['11aa', '22bb'],
  };
  const holder = {
    vertex: '12aa',
    subtask: 3,
    split: 'persons-7',
    why: 'nothing-to-read',
    behind: 1_900,
    still: 9_000,
  };
  const watermark = {
    cause: 'idle-input',
    vertex: '12aa',
    subtask: 3,
    split: 'persons-7',
    text:
      '(subtask 3) has had nothing to read from split persons-7 for 9 s, and event time waits for it ' +
      '(with_idleness would let it go on)',
    figures: { still_ms: 9_000, behind_ms: 1_900 },
    waiting: [],
  };
  return job(ids.nexmark, 'nexmark q7: highest bid', 'RUNNING', now, {
    derived: {
      causes: { limit, watermark },
      event_time: { newest: mark, is_live: true, held_by: { '33cc': '12aa' }, holder },
    },
    start_time: start - 9 * HOUR,
    parallelism: 32,
    vertices: [
      vertex(now, '11aa', 'Source: bids', [], 32, 'RUNNING', {
        rateIn: rate,
        rateOut: rate * 0.92,
        busy: 210,
        backPressured: 740,
        watermark: mark,
        since: start - 9 * HOUR,
      }),
      vertex(now, '12aa', 'Source: persons', [], 4, 'RUNNING', {
        rateIn: 9_000,
        rateOut: 9_000,
        busy: 60,
        backPressured: 30,
        watermark: mark,
        since: start - 9 * HOUR,
      }),
      vertex(now, '22bb', 'Partial maximum', [['11aa', 'FORWARD']], 32, 'RUNNING', {
        rateIn: rate * 0.92,
        rateOut: rate * 0.4,
        busy: 320,
        backPressured: 610,
        watermark: mark,
        since: start - 9 * HOUR,
      }),
      vertex(
        now,
        '33cc',
        'Window maximum -> join with persons',
        [
          ['22bb', 'HASH'],
          ['12aa', 'HASH'],
        ],
        32,
        'RUNNING',
        {
          rateIn: rate * 0.4,
          rateOut: 80,
          busy: 930,
          watermark: mark - 4_000,
          since: start - 9 * HOUR,
        },
      ),
      vertex(now, '44dd', 'Sink: postgres', [['33cc', 'REBALANCE']], 2, 'RUNNING', {
        rateIn: 80,
        rateOut: 80,
        busy: 140,
        watermark: mark - 4_000,
        since: start - 9 * HOUR,
      }),
    ],
  });
}

function failing(now) {
  const attempt = 4 + Math.floor((now - start) / 60_000);
  return job(ids.failing, 'enrich orders', 'RESTARTING', now, {
    attempt,
    restarts: attempt - 1,
    parallelism: 4,
    exceptions: [4, 3, 2, 1].map((each) => exception(start - (5 - each) * 41_000, each)),
    vertices: [
      vertex(now, 'aa01', 'Source: orders', [], 4, 'CANCELED', { rateIn: 100, rateOut: 100, busy: 0, ended: start }),
      vertex(now, 'aa02', 'Map: enrich', [['aa01', 'HASH']], 4, 'FAILED', {
        rateIn: 100,
        rateOut: 99,
        busy: 0,
        ended: start,
      }),
    ],
  });
}

function planned(now) {
  return job(ids.waiting, 'sessions of every user', 'CREATED', now, {
    start_time: start - 65_000,
    parallelism: 8,
    attempt: 0,
    waiting_for: 'needs 8 slots, 2 are free',
    vertices: [
      vertex(now, 'bb01', 'Source: clicks', [], 8, 'CREATED', { rateIn: 0, rateOut: 0, busy: 0, ended: start }),
      vertex(now, 'bb02', 'Session window', [['bb01', 'HASH']], 8, 'CREATED', {
        rateIn: 0,
        rateOut: 0,
        busy: 0,
        ended: start,
      }),
    ],
  });
}

function ended(id, name, state, now, from, to, count) {
  const options = {
    rateIn: (count / (to - from)) * 1000,
    rateOut: (count / (to - from)) * 1000,
    busy: 0,
    since: from,
    ended: to,
    watermark: state === 'FINISHED' ? 'max' : null,
  };
  return job(id, name, state, now, {
    start_time: from,
    end_time: to,
    vertices: [
      vertex(now, 'cc01', 'Source: flights', [], 2, state, options),
      vertex(now, 'cc02', 'Sink: count', [['cc01', 'HASH']], 2, state, options, { is_sink: true }),
    ],
  });
}

export function jobs(now, isEmpty) {
  if (isEmpty) return [];
  return [
    flights(now),
    nexmark(now),
    longName(now),
    failing(now),
    planned(now),
    ended(
      ids.finished,
      'flights: count of 2013',
      'FINISHED',
      now,
      start - 2 * HOUR,
      start - 2 * HOUR + 41_800,
      336_776,
    ),
    ended(ids.canceled, 'try-out', 'CANCELED', now, start - 5 * HOUR, start - 4 * HOUR, 120_500),
  ];
}

export function cluster(now, isEmpty) {
  const summaries = jobs(now, isEmpty).map((each) => {
    const tasks = {};
    for (const { subtasks } of each.vertices) for (const { state } of subtasks) tasks[state] = (tasks[state] ?? 0) + 1;
    const { id, name, state, start_time, end_time, duration, parallelism, restarts, waiting_for } = each;
    const tasks_total = Object.values(tasks).reduce((a, b) => a + b, 0);
    return { id, name, state, start_time, end_time, duration, parallelism, restarts, waiting_for, tasks, tasks_total };
  });
  return {
    version: now,
    now,
    slots_total: 8,
    slots_available: isEmpty ? 8 : 2,
    taskmanagers: TASKMANAGERS.map((id, index) => ({
      id,
      host: id.split(':')[0],
      pid: 2101 + index,
      slots: 4,
      free_slots: isEmpty ? 4 : index * 2,
      last_heartbeat: now - 800 - index * 700,
      registered_at: start - 26 * HOUR,
      state: 'REGISTERED',
      spark_master: index ? 'spark://tide-0:7077' : 'local[4,1]',
      cpu_cores: 4,
      physical_memory: 25_769_803_776,
      free_memory: 14_300_000_000 + index * 2e9,
    })),
    jobs: summaries,
  };
}

/** All metrics of a vertex, or its accumulators. */
export function vertexAnswer(vertex, kind, now) {
  const subtasks = vertex.subtasks.map(({ index }) => index);
  const each = (of) => Object.fromEntries(subtasks.map((index) => [index, of(index)]));
  if (kind === 'metrics') {
    const seconds = Math.floor(now / 1000) % 100_000;
    const operators = vertex.operators.flatMap(({ name }) => {
      const scope = name.replace(/[ .:,]/g, '_');
      return [
        { id: `${scope}.numRecordsIn`, values: each((index) => seconds * (900 + index)) },
        { id: `${scope}.tide.latest`, values: each(() => 'flood') },
      ];
    });
    const watermark = { id: 'currentInputWatermark', values: each(() => '-9223372036854775808') };
    const busy = { id: 'busyTimeMsPerSecond', values: each((index) => 300.25 + index) };
    return { subtasks, metrics: [...operators, watermark, busy] };
  }
  const own = (value) => [{ name: 'records', type: 'IntCounter', value: String(value) }];
  if (kind === 'accumulators') return { id: vertex.id, 'user-accumulators': own(2100 * subtasks.length) };
  const parts = subtasks.map((subtask) => ({
    subtask,
    attempt: 0,
    endpoint: 'tide-0',
    'user-accumulators': own(2100),
  }));
  return { id: vertex.id, parallelism: subtasks.length, subtasks: parts };
}

export function plan() {
  const node = (id, description, parallelism, inputs) => ({
    id,
    parallelism,
    operator: '',
    operator_strategy: '',
    description,
    inputs: inputs.map(([from, ship_strategy], num) => ({
      id: from,
      num,
      ship_strategy,
      exchange: 'pipelined_bounded',
    })),
  });
  return {
    jid: ids.flights,
    name: 'worst flight of every hour',
    type: 'STREAMING',
    nodes: [
      node('1', 'Source: flights<br/>+- Map<br/>   +- Filter<br/>', 2, []),
      node('2', 'TumblingEventTimeWindows<br/>+- Reduce<br/>', 2, [['1', 'HASH']]),
      node('3', 'Sink: print<br/>', 1, [['2', 'REBALANCE']]),
    ],
  };
}

const lines = [];
export function logText(now) {
  while (lines.length < 4000 + (now - start) / 700) {
    const index = lines.length;
    const time = new Date(start - 754_000 + index * 700).toISOString().replace('T', ' ').slice(0, 23);
    if (index % 97 === 96)
      lines.push(`${time} WARNING runtime.operators.watermarks split flights-1 has been idle for 30 s`);
    else if (index % 311 === 310)
      lines.push(`${time} ERROR runtime.connectors.files flights.parquet: row group 12 is short`);
    else
      lines.push(
        `${time} INFO runtime.task.slot window of EWR fired: ${1200 + (index % 77)} rows, worst delay ${index % 1300} min`,
      );
  }
  return lines.join('\n') + '\n';
}

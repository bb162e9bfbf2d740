// Topic documents of the mock server's jobs, and the patches between them, in the server's forms (LiveJob, LiveVertex, LiveOperators).

const FIGURES = [
  'records_in',
  'records_out',
  'bytes_in',
  'bytes_out',
  'records_in_per_second',
  'records_out_per_second',
  'bytes_in_per_second',
  'bytes_out_per_second',
  'busy',
  'idle',
  'back_pressured',
  'watermark',
  'state_size',
];
const STATUS = ['state', 'attempt', 'restarts', 'end_time', 'waiting_for', 'parallelism', 'failure', 'failures'];
const STATIC_VERTEX = [
  'name',
  'description',
  'max_parallelism',
  'slot_sharing_group',
  'is_source',
  'is_sink',
  'inputs',
];
const VERTEX_STATUS = ['state', 'parallelism', 'start_time', 'end_time'];
const SUBTASK_STATUS = ['state', 'attempt', 'slot', 'taskmanager', 'host', 'pid', 'start_time', 'end_time'];

const picked = (from, names) =>
  Object.fromEntries(names.filter((name) => from[name] != null).map((name) => [name, from[name]]));
const keyed = (list, value, key = ({ id }) => id) => Object.fromEntries(list.map((each) => [key(each), value(each)]));
const figures = ({ metrics }) => FIGURES.map((name) => metrics[name] ?? null);

export function jobTopic(job) {
  const { vertices, exceptions } = job;
  return {
    version: job.version,
    now: job.now,
    static: {
      ...picked(job, ['id', 'name', 'start_time', 'max_parallelism']),
      order: vertices.map(({ id }) => id),
      vertices: keyed(vertices, (each) => ({
        ...picked(each, STATIC_VERTEX),
        operators: each.operators.map(({ uid }) => uid),
      })),
      operators: keyed(
        vertices.flatMap(({ operators }) => operators),
        ({ uid, name }) => ({ id: uid, name }),
        ({ uid }) => uid,
      ),
    },
    moving: {
      job: picked(job, STATUS),
      vertices: keyed(vertices, (each) => picked(each, VERTEX_STATUS)),
      figures: keyed(vertices, figures),
      edges: {},
      exceptions: keyed(
        exceptions,
        (each) => each,
        ({ timestamp }) => `${timestamp}-0`,
      ),
      stalls: {},
      ...picked(job, ['autoscaler', 'checkpoints']),
    },
    // a fixture of the mock's own: the rule is the server's
    derived: { causes: {}, ...job.derived },
  };
}

/** Records of a vertex pass all operators of its chain. */
export function operatorsTopic(job) {
  const row = ({ records_in, records_out, records_in_per_second, records_out_per_second, watermark }) => [
    records_in,
    records_out,
    records_in_per_second,
    records_out_per_second,
    watermark,
  ];
  const all = job.vertices.flatMap(({ operators, metrics }) => operators.map(({ uid }) => ({ uid, metrics })));
  return {
    version: job.version,
    now: job.now,
    figures: keyed(
      all,
      ({ metrics }) => row(metrics),
      ({ uid }) => uid,
    ),
  };
}

/** Undefined: the job has no such vertex. */
export function vertexTopic(job, vertexId) {
  const vertex = job.vertices.find(({ id }) => id === vertexId);
  if (vertex === undefined) return undefined;
  const index = (subtask) => subtask.index;
  return {
    version: job.version,
    now: job.now,
    subtasks: keyed(vertex.subtasks, (each) => picked(each, SUBTASK_STATUS), index),
    figures: keyed(vertex.subtasks, figures, index),
  };
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** RFC 7386. */
export function mergePatch(before, after) {
  const patch = {};
  for (const name of Object.keys(before)) if (!(name in after)) patch[name] = null;
  for (const [name, value] of Object.entries(after)) {
    const old = before[name];
    if (isObject(value) && isObject(old)) {
      const inner = mergePatch(old, value);
      if (Object.keys(inner).length > 0) patch[name] = inner;
    } else if (JSON.stringify(old) !== JSON.stringify(value)) patch[name] = value;
  }
  return patch;
}

/**
 * Where the figures of a job belong on the pipeline that it was drawn as. Pure.
 *
 * A node is one operator, several, or none: a union only passes on. Each output of a node is a stream, which the server
 * knows as outputs of operators. How many records a stream has is known at the ways on which they leave the operator: an
 * edge of the job counts them, and so does an operator inside a chain, which takes nothing else. Where one of these is
 * unknown, so is the sum.
 */

import type { ExecutionState, JobPipeline, StaticJob, Watermark } from '../../gen/contract';
import { behindOf, liveLagOf } from '../eventTime';
import { type JobWithOperators, eventTimeOf, metricsOfEdge, metricsOfOperator, metricsOfVertex } from '../job';
import { type PeekPlace, keyOfChained } from '../peek';
import { stateOfAll } from '../states';
import { type PipelineDocument, nameOf } from './document';

/** A way on which records leave an operator; it ends at the operator `target`, by uid. */
export interface Way {
  readonly target: string;
  /** Id of the job's edge; null: the target is the next one in the chain. */
  readonly edge: string | null;
  /** Whether the edge counts each record once for each subtask. */
  readonly isBroadcast: boolean;
}

/** What an operator emits by one of its outputs. */
export interface Stream {
  /** Uid. */
  readonly operator: string;
  /** Id of the side output; empty: the main output. */
  readonly sideOutput: string;
  /** Whether the operator has no other output that is read. */
  readonly isAll: boolean;
  readonly ways: readonly Way[];
}

export interface RunningEdge {
  /** Where its rows can be looked at; null: it has no way of its own. */
  readonly peek: PeekPlace | null;
  readonly streams: readonly { readonly stream: Stream; readonly into: readonly Way[] }[];
}

export interface RunningNode {
  /** Vertices that its operators run in, sources first. */
  readonly vertices: readonly string[];
  /** Names of the other nodes whose operators run in these vertices. */
  readonly chainedWith: readonly string[];
  /** Uids of the operators that records of other nodes come to, or that read them from outside. */
  readonly entries: readonly string[];
  /** Uids of those that read from outside. */
  readonly sources: readonly string[];
  /** The edges into it; null: one of them is unknown. */
  readonly inputs: readonly RunningEdge[] | null;
  /** The streams that leave it; null: it has no outputs, or they are unknown. */
  readonly outputs: readonly Stream[] | null;
  /** Uids of the operators that nothing follows. */
  readonly ends: readonly string[];
}

/** Nodes and edges that the job has, by their ids in the document. */
export interface RunningPipeline {
  readonly nodes: ReadonlyMap<string, RunningNode>;
  readonly edges: ReadonlyMap<string, RunningEdge>;
}

/** What is known for as long as the job exists. */
export function runningPipeline(
  document: PipelineDocument,
  { operators: nodeOf, outputs }: Pick<JobPipeline, 'operators' | 'outputs'>,
  { operators, vertices, order }: Pick<StaticJob, 'operators' | 'vertices' | 'order'>,
): RunningPipeline {
  const uids = Object.keys(operators);
  const uidOf = new Map(Object.entries(operators).map(([uid, { id }]) => [id, uid]));
  const node = (uid: string) => nodeOf[operators[uid]?.id ?? ''];
  const { ways, feeders } = waysOf({ operators, vertices, order });

  const streamOf = (operator: string, sideOutput: string): Stream => {
    const own = ways.get(operator) ?? new Map<string, Way[]>();
    const isAll = [...own.keys()].every((each) => each === sideOutput);
    return { operator, sideOutput, isAll, ways: own.get(sideOutput) ?? [] };
  };
  const streamsOf = ([from, port]: readonly [string, string]): readonly Stream[] | null => {
    const made = (outputs[from]?.[port] ?? []).map(({ operator, side_output }) => {
      const uid = uidOf.get(operator);
      return uid === undefined ? null : streamOf(uid, side_output);
    });
    return made.length === 0 ? null : allOrNull(made);
  };
  // the others are disabled, or below one that is
  const present = new Set([...Object.keys(outputs), ...uids.map(node)]);

  const placeOf = ({ edge, target }: Way): PeekPlace | null => {
    const vertex = order.find((each) => vertices[each]?.operators.includes(target));
    return vertex === undefined ? null : { vertex, key: edge ?? keyOfChained(target) };
  };

  const edges = new Map<string, RunningEdge>();
  for (const [id, { from, to }] of Object.entries(document.edges)) {
    const streams = present.has(to[0]) ? streamsOf(from) : null;
    if (streams === null) continue;
    const into = (stream: Stream) => stream.ways.filter(({ target }) => node(target) === to[0]);
    const entered = streams.map((stream) => ({ stream, into: into(stream) }));
    const [way] = entered.flatMap((each) => each.into);
    edges.set(id, { peek: way === undefined ? null : placeOf(way), streams: entered });
  }

  const nodes = new Map<string, RunningNode>();
  for (const id of Object.keys(document.nodes).filter((each) => present.has(each))) {
    const own = uids.filter((uid) => node(uid) === id);
    const within = order.filter((vertex) => vertices[vertex]?.operators.some((uid) => own.includes(uid)));
    const beside = within.flatMap((vertex) => vertices[vertex]?.operators.map(node) ?? []);
    const others = beside.filter((each) => each !== undefined && each !== id) as string[];
    const incoming = Object.entries(document.edges).filter(([, { from, to }]) => to[0] === id && present.has(from[0]));
    const sources = own.filter((uid) => (feeders.get(uid) ?? []).length === 0);
    nodes.set(id, {
      vertices: within,
      chainedWith: [...new Set(others)].map((each) => nameOf(document, each)),
      entries: own.filter((uid) => sources.includes(uid) || feeders.get(uid)?.some((each) => node(each) !== id)),
      sources,
      inputs: allOrNull(incoming.map(([edge]) => edges.get(edge) ?? null)),
      outputs: Object.hasOwn(outputs, id)
        ? distinct(Object.keys(outputs[id] ?? {}).map((p) => streamsOf([id, p])))
        : null,
      ends: own.filter((uid) => !ways.has(uid)),
    });
  }
  return { nodes, edges };
}

/** The ways out of each operator by side output, and the operators that feed each; all by uid. */
function waysOf({ operators, vertices, order }: Pick<StaticJob, 'operators' | 'vertices' | 'order'>) {
  const ways = new Map<string, Map<string, Way[]>>();
  const feeders = new Map<string, string[]>();
  const add = (operator: string, tag: string, way: Way) => {
    const own = ways.get(operator) ?? new Map<string, Way[]>();
    ways.set(operator, own.set(tag, [...(own.get(tag) ?? []), way]));
    feeders.set(way.target, [...(feeders.get(way.target) ?? []), operator]);
  };
  for (const [uid, { input }] of Object.entries(operators)) {
    if (input !== undefined) add(input.operator, input.side_output, { target: uid, edge: null, isBroadcast: false });
  }
  for (const vertex of order.map((id) => vertices[id])) {
    const [head] = vertex?.operators ?? [];
    for (const { operator, edge, side_output = '', ship_strategy } of vertex?.inputs ?? []) {
      // documents of earlier releases do not tell
      if (head === undefined || operator === undefined || edge === undefined) continue;
      add(operator, side_output, { target: head, edge, isBroadcast: ship_strategy === 'BROADCAST' });
    }
  }
  return { ways, feeders };
}

function allOrNull<T>(all: readonly (T | null)[]): readonly T[] | null {
  return all.includes(null) ? null : (all as readonly T[]);
}

/** A stream that is two outputs leaves once; one that is twice in an output (of a union) leaves twice. */
function distinct(outputs: readonly (readonly Stream[] | null)[]): readonly Stream[] | null {
  const seen = new Set<string>();
  return (
    allOrNull(outputs)?.flatMap((streams) => {
      const keys = streams.map(({ operator, sideOutput }) => JSON.stringify([operator, sideOutput]));
      const own = streams.filter((_, index) => !seen.has(keys[index] ?? ''));
      for (const key of keys) seen.add(key);
      return own;
    }) ?? null
  );
}

// --- figures ---------------------------------------------------------------------------------------------------------

export interface Flow {
  readonly records: number;
  readonly perSecond: number;
}

/** Figures of an edge; null: unknown. Of a broadcast, records count once. */
export interface EdgeFlow extends Flow {
  readonly bytesPerSecond: number | null;
  readonly queuedBytes: number | null;
  readonly queuedBuffers: number | null;
  /** Whether both ends run in one chain, where nothing is sent and nothing waits. */
  readonly isChained: boolean;
}

export function flowOf(job: JobWithOperators, { streams }: RunningEdge): EdgeFlow | null {
  const flow = sum(streams.map(({ stream, into }) => flowOfStream(job, stream, into)));
  if (flow === null || streams.length === 0) return null;
  // where one stream has two ways into a node, which of them is this edge is not known
  const ways = streams.flatMap(({ into }) => (into.length === 1 ? into : []));
  const isChained = ways.length === streams.length && ways.every(({ edge }) => edge === null);
  const sent = ways.filter(({ edge }) => edge !== null).map(({ edge }) => metricsOfEdge(job, edge ?? undefined));
  const isKnown = !isChained && ways.length === streams.length && !sent.includes(undefined);
  const total = (name: 'bytes_per_second' | 'queued_bytes' | 'queued_buffers') =>
    isKnown ? sent.reduce((sum, metrics) => sum + (metrics?.[name] ?? 0), 0) : null;
  return {
    ...flow,
    bytesPerSecond: total('bytes_per_second'),
    queuedBytes: total('queued_bytes'),
    queuedBuffers: total('queued_buffers'),
    isChained,
  };
}

function flowOfStream(
  job: JobWithOperators,
  { operator, isAll, ways }: Stream,
  into: readonly Way[] = [],
): Flow | null {
  for (const { edge, target, isBroadcast } of [...into, ...ways]) {
    if (isBroadcast) continue;
    if (edge === null) {
      const received = metricsOfOperator(job, target);
      if (received !== undefined) return { records: received.records_in, perSecond: received.records_in_per_second };
    } else {
      const sent = metricsOfEdge(job, edge);
      if (sent !== undefined) return { records: sent.records_sent, perSecond: sent.records_per_second };
    }
  }
  return isAll ? emitted(job, operator) : null;
}

function emitted(job: JobWithOperators, operator: string): Flow | null {
  const metrics = metricsOfOperator(job, operator);
  return metrics === undefined ? null : { records: metrics.records_out, perSecond: metrics.records_out_per_second };
}

function read(job: JobWithOperators, operator: string): Flow | null {
  const metrics = metricsOfOperator(job, operator);
  return metrics === undefined ? null : { records: metrics.records_in, perSecond: metrics.records_in_per_second };
}

function sum(flows: readonly (Flow | null)[]): Flow | null {
  return (
    allOrNull(flows)?.reduce(
      (one, other) => ({ records: one.records + other.records, perSecond: one.perSecond + other.perSecond }),
      { records: 0, perSecond: 0 },
    ) ?? null
  );
}

/** What a node shows, flat: two of them can be compared member by member. */
export interface NodeFigures {
  /** Of the vertices; null: none of its operators runs in one. */
  readonly state: ExecutionState | null;
  /** Of the vertices with all that is chained there, ms of the last second. */
  readonly busy: number;
  readonly idle: number;
  readonly back_pressured: number;
  readonly parallelism: number | null;
  /** Bytes of the vertices in the latest completed checkpoint or savepoint; null: unknown. */
  readonly stateSize: number | null;
  readonly received: number | null;
  readonly receivedSoFar: number | null;
  readonly sent: number | null;
  readonly sentSoFar: number | null;
  /** The lowest that has reached it. */
  readonly watermark: Watermark;
  readonly isBottleneck: boolean;
  readonly holdsWatermark: boolean;
}

export function figuresOfNode(job: JobWithOperators, node: RunningNode): NodeFigures {
  const { moving, derived } = job;
  const loads = node.vertices.flatMap((id) => metricsOfVertex(job, id) ?? []);
  const statuses = node.vertices.flatMap((id) => moving.vertices[id] ?? []);
  const parallelisms = new Set(statuses.map(({ parallelism }) => parallelism));
  const [received, sent] = [receivedBy(job, node), sentBy(job, node)];
  const sizes = loads.flatMap(({ state_size }) => state_size ?? []);
  const limit = derived.causes?.limit;
  return {
    state: statuses.length === 0 ? null : stateOfAll(statuses.map(({ state }) => state)),
    busy: Math.max(0, ...loads.map(({ busy }) => busy)),
    idle: Math.min(1000, ...loads.map(({ idle }) => idle)),
    back_pressured: Math.max(0, ...loads.map(({ back_pressured }) => back_pressured)),
    parallelism: parallelisms.size === 1 ? (statuses[0]?.parallelism ?? null) : null,
    stateSize: sizes.length === 0 ? null : sizes.reduce((one, other) => one + other, 0),
    received: received?.perSecond ?? null,
    receivedSoFar: received?.records ?? null,
    sent: sent?.perSecond ?? null,
    sentSoFar: sent?.records ?? null,
    watermark: watermarkOf(job, node),
    // of an unknown cause the vertex is the one that waits
    isBottleneck: limit !== undefined && limit.cause !== 'unknown' && node.vertices.includes(limit.vertex),
    holdsWatermark: node.vertices.includes(derived.causes?.watermark?.vertex ?? ''),
  };
}

/** By how many ms the watermark of a node is behind the clock, where sources are live, and behind the newest one. */
export function latenessOf(
  job: JobWithOperators,
  node: RunningNode,
): { readonly lag: number | null; readonly behind: number | null } {
  const watermark = watermarkOf(job, node);
  return {
    lag: liveLagOf(watermark, job.now, job.derived.event_time, node.vertices[0] ?? ''),
    behind: behindOf(watermark, eventTimeOf(job), node.vertices[0] ?? ''),
  };
}

function watermarkOf(job: JobWithOperators, { entries }: RunningNode): Watermark {
  return lowest(entries.map((uid) => metricsOfOperator(job, uid)?.watermark ?? null));
}

function receivedBy(job: JobWithOperators, { inputs, sources }: RunningNode): Flow | null {
  if (inputs === null) return null;
  const flows = [...inputs.map((edge) => flowOf(job, edge)), ...sources.map((uid) => read(job, uid))];
  return flows.length === 0 ? null : sum(flows);
}

function sentBy(job: JobWithOperators, { outputs, ends }: RunningNode): Flow | null {
  // what nobody reads does not leave
  if (outputs !== null)
    return sum(outputs.filter(({ ways }) => ways.length > 0).map((each) => flowOfStream(job, each)));
  return ends.length === 0 ? null : sum(ends.map((uid) => emitted(job, uid)));
}

function lowest(watermarks: readonly Watermark[]): Watermark {
  if (watermarks.length === 0 || watermarks.includes(null)) return null;
  const numbers = watermarks.filter((each) => typeof each === 'number');
  return numbers.length === 0 ? 'max' : Math.min(...numbers);
}

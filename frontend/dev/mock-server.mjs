// A server to develop the page against: `npm run build && npm run mock`, then http://127.0.0.1:8000/ui/.
// Log in with any name and the password "tide", or any token. Serves dist, the REST shapes and a moving live document.
// Environment: PORT (8000), EMPTY=1 (a cluster without jobs), SILENT_AFTER_S (the socket stops talking), FROZEN_AFTER_S (the
// jobmanager stops, and the server says so).

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

import { WebSocketServer } from 'ws';

import { cancel, cluster, ids, jobs, logText, plan, vertexAnswer } from './mock-data.mjs';
import { jobTopic, mergePatch, operatorsTopic, vertexTopic } from './mock-topics.mjs';

const port = Number(process.env.PORT ?? 8000);
const isEmpty = process.env.EMPTY === '1';
const silentAfterMs = Number(process.env.SILENT_AFTER_S ?? 0) * 1000;
const frozenAt =
  process.env.FROZEN_AFTER_S === undefined ? Infinity : Date.now() + Number(process.env.FROZEN_AFTER_S) * 1000;
const dist = fileURLToPath(new URL('../dist', import.meta.url));
const started = Date.now();
const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
const CSP =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";
let programs = isEmpty
  ? []
  : [
      { id: 'a'.repeat(64), name: 'flight_delays.py', uploaded: started - 7_200_000, entry: [] },
      {
        id: 'b'.repeat(64),
        name: 'nexmark-0.2.0-py3-none-any.whl',
        uploaded: started - 90_000_000,
        entry: [{ name: 'nexmark.q7', description: null }],
      },
    ];

/** Waves, a minute long, from the beginning of the window on. */
function historyOf(query, now) {
  const begin = Number(query.get('from'));
  const end = Number(query.get('to') ?? now);
  const step = Math.max(5000, Math.ceil((end - begin) / 1000));
  const times = Array.from({ length: Math.floor((end - begin) / step) }, (_, index) => begin + index * step);
  const values = (name) =>
    times.map((time) => (name.endsWith('watermark') ? time - 4000 : 300 + 250 * Math.sin(time / 9549)));
  const series = Object.fromEntries((query.get('series') ?? '').split(',').map((name) => [name, values(name)]));
  return { is_available: true, begin, end, step, times, series, events: [] };
}

function freshness(now) {
  const age = Math.max(0, now - frozenAt);
  const isStale = age > 3000;
  const reason = isStale ? `The JobManager has sent no heartbeat for ${Math.floor(age / 1000)} s.` : '';
  return { age_ms: age, source: 'live', is_stale: isStale, reason };
}

const document = (topic, time) => {
  const now = Math.min(time, frozenAt);
  return find(topic, now);
};
const find = (topic, now) => {
  if (topic === 'cluster') return cluster(now, isEmpty);
  const [, jobId, part, vertexId] = /^job:(\w+)(?:\/(vertex:(\w+)|operators))?$/.exec(topic) ?? [];
  const job = jobs(now, isEmpty).find(({ id }) => id === jobId);
  if (job === undefined) return undefined;
  if (part === 'operators') return operatorsTopic(job);
  return vertexId === undefined ? jobTopic(job) : vertexTopic(job, vertexId);
};
const jobNow = (id, time) => jobs(Math.min(time, frozenAt), isEmpty).find((job) => job.id === id);

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

async function serveFile(path, response) {
  const wanted = normalize(join(dist, path.slice('/ui/'.length)));
  const file = wanted.startsWith(dist) && extname(wanted) !== '' ? wanted : join(dist, 'index.html');
  try {
    const content = await readFile(file);
    response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'text/plain', 'Content-Security-Policy': CSP });
    response.end(content);
  } catch {
    response.writeHead(404).end('not found');
  }
}

const server = createServer((request, response) => {
  void handle(request, response);
});

async function handle(request, response) {
  const url = new URL(request.url, 'http://mock');
  const path = url.pathname.replace(/^\/v1\//, '/');
  const now = Date.now();
  const json = (value, status = 200, headers = {}) =>
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(value));
  if (path === '/') return response.writeHead(302, { Location: '/ui/' }).end();
  if (path.startsWith('/ui/')) return serveFile(path, response);

  const isLoggedIn = /mock=in/.test(request.headers.cookie ?? '');
  const session = { user: { name: 'admin', role: 'admin' } };
  if (path === '/api/v1/session') {
    if (request.method === 'DELETE') return json({}, 200, { 'Set-Cookie': 'mock=; Path=/; Max-Age=0' });
    if (request.method === 'POST') {
      const given = JSON.parse((await body(request)).toString());
      if (given.password !== undefined && given.password !== 'tide') {
        return json({ errors: [{ code: 'refused', field: null, message: 'Wrong name or password.' }] }, 401);
      }
      return json(session, 200, { 'Set-Cookie': ['mock=in; Path=/', 'csrftoken=mock-token; Path=/'] });
    }
    return isLoggedIn
      ? json(session)
      : json({ errors: [{ code: 'not_authenticated', message: 'Log in first.' }] }, 401);
  }
  if (!isLoggedIn) return json({ errors: ['Log in first.'] }, 401);
  if (request.method !== 'GET' && request.headers['x-csrftoken'] !== 'mock-token') {
    return json({ errors: ['CSRF token missing.'] }, 403);
  }
  if (path === '/config') return json({ 'flink-version': '2.3.0', 'tidemark-version': '0.2.0', features: {} });
  if (path === '/api/v1/cluster') return json({ ...document('cluster', now), freshness: freshness(now) });
  if (path === '/api/v1/jobmanagers') {
    const jobmanager = { role: 'STANDBY', epoch: null, leading_since: null, is_alive: true };
    const leader = { ...jobmanager, id: 'host-1:4711', role: 'LEADER', epoch: 3, leading_since: now - 3_600_000 };
    return json({ jobmanagers: [leader, { ...jobmanager, id: 'host-2:815' }], redis_answers: true });
  }
  if (path === '/api/v1/savepoints') {
    const savepoint = (id, kind, exists, needed_by) => ({
      location: `file:///var/lib/tidemark/savepoints/savepoint-${ids.flights.slice(0, 6)}-${id}`,
      job_id: ids.flights,
      job_name: 'flights: worst delay of every hour',
      job_state: 'RUNNING',
      created_at: started - 600_000,
      size: 1_204_000,
      kind,
      format: 'CANONICAL',
      checkpoint_id: 12,
      requested_by: 'admin',
      exists,
      used_by: [],
      needed_by,
    });
    const savepoints = [
      savepoint('0c1d2e3f4a5b', 'savepoint', true, null),
      savepoint('1c1d2e3f4a5b', 'stop', true, ids.flights),
      savepoint('2c1d2e3f4a5b', 'savepoint', false, null),
    ];
    return json({ savepoints: isEmpty ? [] : savepoints });
  }
  if (path === '/jars') return json({ address: `http://127.0.0.1:${port}`, files: programs });
  if (path === '/jars/upload') {
    const name = /filename="([^"]+)"/.exec((await body(request)).toString('latin1'))?.[1] ?? 'program.py';
    const id = String(now).padStart(64, '0');
    programs = [...programs, { id, name, uploaded: now, entry: [] }];
    return json({ filename: `/artifacts/${id}`, status: 'success' });
  }
  const jar = /^\/jars\/(\w+)(\/plan|\/run)?$/.exec(path);
  if (jar !== null) {
    if (jar[2] === '/plan')
      return json({ plan: plan(), warnings: ['Reduce has no uid: one was derived.'], output: '' });
    if (jar[2] === '/run') {
      return json({ jobid: ids.flights, warnings: ['Reduce has no uid: one was derived.'], output: 'reads 3 files' });
    }
    programs = programs.filter(({ id }) => id !== jar[1]);
    return json({});
  }
  if (path.startsWith('/taskmanagers/')) {
    const allocatedSlots = [ids.flights, ids.flights, ids.nexmark].map((jobId) => ({ jobId, assignedTasks: 3 }));
    return json({ id: path.slice(14), allocatedSlots: isEmpty ? [] : allocatedSlots });
  }
  const found = /^(?:\/api\/v1)?\/jobs\/(\w+)(\/.*)?$/.exec(path);
  const job = found === null ? undefined : jobNow(found[1], now);
  if (job === undefined) return json({ errors: [`Nothing is at ${path}.`] }, 404);
  const rest = found[2] ?? '';
  if (request.method === 'PATCH') {
    cancel(job.id);
    return json({}, 202);
  }
  if (rest === '/topic') return json({ ...jobTopic(job), freshness: freshness(now) });
  if (rest === '/operators/topic') return json({ ...operatorsTopic(job), freshness: freshness(now) });
  if (rest === '/history') return json(historyOf(url.searchParams, now));
  const shown = /^\/vertices\/(\w+)\/topic$/.exec(rest);
  const subtasks = shown === null ? undefined : vertexTopic(job, shown[1]);
  if (subtasks !== undefined) return json({ ...subtasks, freshness: freshness(now) });
  if (rest === '/config') {
    const user = { 'pipeline.name': job.name, 'parallelism.default': '2', 'execution.buffer-timeout': '100 ms' };
    const strategy = 'Cluster level default restart strategy';
    return json({
      jid: job.id,
      name: job.name,
      'execution-config': {
        'restart-strategy': strategy,
        'job-parallelism': job.parallelism,
        'object-reuse-mode': false,
        'user-config': user,
      },
    });
  }
  const route = /^\/vertices\/(\w+)\/(metrics|accumulators|subtasks\/accumulators)$/.exec(rest);
  const vertex = job.vertices.find(({ id }) => id === route?.[1]);
  if (vertex !== undefined) return json(vertexAnswer(vertex, route[2], now));
  if (rest === '/logs') {
    const size = Buffer.byteLength(logText(now));
    const files = [0, 1].flatMap((slot) => [
      { name: `attempt-1/slot-${slot}.out`, attempt: 1, slot, kind: 'out', size: 0, mtime: now },
      { name: `attempt-1/slot-${slot}.log`, attempt: 1, slot, kind: 'log', size, mtime: now },
    ]);
    return json({ files: job.state === 'CREATED' ? [] : files });
  }
  if (rest === '/log-search') {
    const content = Buffer.from(logText(now));
    const query = url.searchParams.get('query').toLowerCase();
    const lines = logText(now).split('\n');
    let offset = 0;
    const matches = lines.flatMap((text, index) => {
      const found = { line: index + 1, offset, text: text.slice(0, 500) };
      offset += Buffer.byteLength(text) + 1;
      return text.toLowerCase().includes(query) ? [found] : [];
    });
    const { length: size } = content;
    return json({ size, lines: lines.length - 1, matches, searched_to: size, is_complete: true });
  }
  if (rest.startsWith('/logs/')) {
    const content = rest.endsWith('.log') ? Buffer.from(logText(now)) : Buffer.alloc(0);
    const asked = Number(url.searchParams.get('offset') ?? 0);
    const fromEnd = Math.max(0, content.length + asked);
    // from the end, a text begins with a line
    const lineStart = fromEnd === 0 ? 0 : content.indexOf(10, fromEnd) + 1;
    const offset = asked < 0 ? lineStart : Math.min(asked, content.length);
    const piece = content.subarray(offset, offset + Number(url.searchParams.get('limit') ?? 65_536));
    return json({
      name: rest.slice('/logs/'.length),
      offset,
      next_offset: offset + piece.length,
      size: content.length,
      text: piece.toString(),
      first_line: content.subarray(0, offset).toString().split('\n').length,
      lines: content.toString().split('\n').length - 1,
    });
  }
  return json({ errors: [`Nothing is at ${path}.`] }, 404);
}

const sockets = new WebSocketServer({ server, path: '/ws/live', handleProtocols: () => 'tidemark.live.2' });
sockets.on('connection', (socket) => {
  const sent = new Map();
  let round = 0;
  const send = (message) => {
    if (silentAfterMs === 0 || Date.now() - started < silentAfterMs) socket.send(JSON.stringify(message));
  };
  socket.on('message', (data) => {
    const { type, topic } = JSON.parse(data.toString());
    if (type === 'unsubscribe') sent.delete(topic);
    if (type !== 'subscribe') return;
    const now = Date.now();
    const found = document(topic, now);
    if (found === undefined) return send({ type: 'error', topic, message: 'There is no such topic.' });
    sent.set(topic, { version: 1, data: found });
    send({ type: 'snapshot', topic, version: 1, data: found, freshness: freshness(now) });
  });
  const timer = setInterval(() => {
    const now = Date.now();
    round += 1;
    if (round % 2 === 0) {
      send({
        type: 'tick',
        now,
        freshness: Object.fromEntries([...sent.keys()].map((topic) => [topic, freshness(now)])),
      });
    }
    if (now > frozenAt) return;
    for (const [topic, { version, data }] of sent) {
      const next = document(topic, now);
      sent.set(topic, { version: version + 1, data: next });
      const patch = mergePatch(data, next);
      send({ type: 'change', topic, from: version, version: version + 1, patch, freshness: freshness(now) });
    }
  }, 500);
  socket.on('close', () => clearInterval(timer));
});

server.listen(port, '127.0.0.1', () => console.log(`mock server: http://127.0.0.1:${port}/ui/`));

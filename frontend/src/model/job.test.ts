import { describe, expect, test } from 'vitest';

import type { LiveJob } from '../gen/contract';
import {
  exceptionsOf,
  jobOf,
  metricsOf,
  metricsOfEdge,
  metricsOfVertex,
  subtasksOf,
  vertexOf,
  verticesOf,
} from './job';
import { applyMergePatch } from './mergePatch';
import { figures, jobException, liveJob, metrics } from './testData';

const before = liveJob({ source: [], map: ['source'] });
const changed = (patch: object) => applyMergePatch(before, patch) as LiveJob;
const vertices = ({ static: fixed, moving }: LiveJob) => verticesOf(fixed, moving.vertices);
const vertex = ({ static: fixed, moving }: LiveJob, id: string) => vertexOf(fixed, moving.vertices, id);

describe('what a change does not name keeps its identity', () => {
  const moved = changed({ version: 2, now: 5, moving: { figures: { map: figures({ busy: 900 }) } } });
  const failed = changed({ version: 2, moving: { vertices: { map: { state: 'FAILED' } } } });

  test('figures of one vertex change its figures only', () => {
    expect(metricsOfVertex(moved, 'map')).toEqual(metrics({ busy: 900 }));
    expect(metricsOfVertex(moved, 'source')).toBe(metricsOfVertex(before, 'source'));
    expect(vertices(moved)).toBe(vertices(before));
    expect(jobOf(moved.static, moved.moving.job)).toBe(jobOf(before.static, before.moving.job));
  });

  test('a state changes that vertex only', () => {
    expect(vertex(failed, 'map')?.state).toBe('FAILED');
    expect(vertex(failed, 'source')).toBe(vertex(before, 'source'));
    expect(vertices(failed).map(({ id, state }) => [id, state])).toEqual([
      ['source', 'RUNNING'],
      ['map', 'FAILED'],
    ]);
  });

  test('a new snapshot is read anew', () => {
    const renamed = { ...before.static, name: 'other' };
    expect(jobOf(renamed, before.moving.job).name).toBe('other');
    expect(jobOf(before.static, before.moving.job).name).toBe('job');
  });
});

test('a vertex has the operators of its chain, by name', () => {
  expect(vertex(before, 'map')?.operators).toEqual([{ uid: 'map-uid', id: 'map-id', name: 'operator of map' }]);
  expect(vertex(before, 'gone')).toBeUndefined();
  expect(metricsOfVertex(before, 'gone')).toBeUndefined();
});

test('an edge has the figures of its own id, by name', () => {
  const edges = { '4': [10, 9, 2.5, 100, 1, 64, 'max'] } as LiveJob['moving']['edges'];
  const job = liveJob({ source: [], window: ['source'] }, { edges });
  expect(metricsOfEdge(job, '4')).toEqual({
    records_sent: 10,
    records_received: 9,
    records_per_second: 2.5,
    bytes_per_second: 100,
    queued_buffers: 1,
    queued_bytes: 64,
    watermark: 'max',
  });
  expect(metricsOfEdge(job, '5')).toBeUndefined();
  expect(metricsOfEdge(job, undefined)).toBeUndefined();
});

test('figures have names in the order in which they are sent', () => {
  const row = figures({
    records_in: 1,
    bytes_out_per_second: 2,
    busy: 3,
    back_pressured: 4,
    watermark: 'max',
    state_size: 5,
  });
  expect(row).toEqual([1, 0, 0, 0, 0, 0, 0, 2, 3, 1000, 4, 'max', 5]);
  expect(metricsOf(row)).toMatchObject({ records_in: 1, busy: 3, back_pressured: 4, watermark: 'max', state_size: 5 });
});

test('exceptions are listed newest first, and so are those of one moment', () => {
  const said = (timestamp: number, message: string) => jobException({ timestamp, message });
  const listed = exceptionsOf({ '3-0': said(3, 'a'), '5-0': said(5, 'b'), '5-10': said(5, 'd'), '5-9': said(5, 'c') });
  expect(listed.map(({ message }) => message)).toEqual(['d', 'c', 'b', 'a']);
});

test('subtasks are listed by index', () => {
  const status = { state: 'RUNNING', attempt: 1, taskmanager: '', host: '', start_time: 0, end_time: -1 } as const;
  expect(subtasksOf({ '10': { ...status }, '9': { ...status } }).map(({ index }) => index)).toEqual([9, 10]);
});

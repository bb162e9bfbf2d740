// @vitest-environment happy-dom
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { LiveJob } from '../../gen/contract';
import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { cause, figures, liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { EventTime } from '../EventTime/EventTime';
import { Why } from './Why';

const FIRST = liveJob({ left: [], right: [], join: ['left', 'right'] });
const topic = `job:${FIRST.static.id}` as const;
const onSelect = vi.fn();
let socket: ScriptedSocket;

beforeEach(() => {
  onSelect.mockClear();
  socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: FIRST });
  render(
    <LiveContext value={connection}>
      <JobProvider value={FIRST.static.id}>
        <Why onSelect={onSelect} />
        <EventTime onSelect={onSelect} />
      </JobProvider>
    </LiveContext>,
  );
});

afterEach(cleanup);

function change(version: number, patch: { moving?: object; derived?: Partial<LiveJob['derived']> }) {
  act(() => socket.says({ type: 'change', topic, from: version - 1, version, patch: { version, ...patch } }));
}

function why(): string {
  return screen.getByRole('group', { name: 'Why' }).textContent;
}

test('a job that nobody has judged yet is being watched: that is not the same as that nothing is wrong', () => {
  change(2, { derived: { causes: null as never } });
  expect(why()).toBe('Why: watching the job.');
});

test('a cause is announced with its vertex, and not again when its figures move', () => {
  const announced = () => screen.getByRole('status', { name: 'Causes' }).textContent;
  expect(announced()).toBe('');
  change(2, { derived: { causes: { limit: cause('join', { cause: 'slow-sink', text: 'spends 91 %' }) } } });
  expect(announced()).toBe('Why: join: slow sink');
  change(3, { derived: { causes: { limit: cause('join', { cause: 'slow-sink', text: 'spends 92 %' }) } } });
  expect(announced()).toBe('Why: join: slow sink');
});

test('every line dims once the server no longer vouches for it', () => {
  const dims = () => screen.getByRole('group', { name: 'Why' }).querySelector('p')?.classList.contains('tm-live');
  expect(dims()).toBe(true);
  change(2, { derived: { causes: { limit: cause('join') } } });
  expect(dims()).toBe(true);
});

test('a vertex whose stream never meets the newest is compared with its own', () => {
  const rows = { left: figures({ watermark: 5_000 }), right: figures({ watermark: 2_000 }) };
  const event_time = { newest: 5_000, is_live: false, held_by: {}, newest_of: { right: 2_000 } };
  change(2, { moving: { figures: rows }, derived: { event_time } });
  const behind = screen.getAllByRole('row').map((row) => row.children[2]?.textContent.replaceAll('\u202f', ' '));
  expect(behind.slice(1, 3)).toEqual(['0 ms', '0 ms']);
});

test('a job that nothing holds up says so, and one that does not run says nothing', () => {
  expect(why()).toBe('Why: nothing holds the job up.');
  change(2, { moving: { job: { state: 'FAILED' } } });
  expect(screen.queryByRole('group', { name: 'Why' })).toBeNull();
});

test('a cause is told behind the name of its vertex, which leads there', () => {
  change(2, { derived: { causes: { limit: cause('join', { text: 'is busy 98 % of the time' }) } } });
  expect(why()).toBe('Why: join is busy 98 % of the time');
  fireEvent.click(screen.getByRole('button', { name: 'join' }));
  expect(onSelect).toHaveBeenCalledExactlyOnceWith('join');
});

test('what limits the job stands before what holds the watermark, whatever came first', () => {
  const causes = { watermark: cause('left', { text: 'waits' }), limit: cause('join', { text: 'works' }) };
  change(2, { derived: { causes } });
  expect(why()).toBe('Why: join worksWhy: left waits');
});

test('a job without event time has no watermarks to show', () => {
  expect(screen.queryByRole('table')).toBeNull();
});

test('idle splits are listed, with the number of those that are not named', () => {
  const idle = [
    { vertex: 'right', subtask: 0, split: 'p3' },
    { vertex: 'right', subtask: 1, split: 'p7' },
    { vertex: 'left', subtask: 2 },
  ];
  const event_time = { newest: 5_000, is_live: false, held_by: {}, idle, num_idle: 40 };
  change(2, { derived: { event_time } });
  expect(screen.getByText(/^Idle/).textContent).toBe(
    'Idle (40): left, subtask 2; right, subtask 0, split p3; subtask 1, split p7 and 37 more',
  );
});

test('the watermarks of all vertices are compared with the newest one, and name who holds them back', () => {
  const holder = { vertex: 'right', subtask: 1, split: 'p3', why: 'nothing-to-read', behind: 3_000, still: 0 } as const;
  const rows = { left: figures({ watermark: 5_000 }), right: figures({ watermark: 2_000 }) };
  const event_time = { newest: 5_000, is_live: false, held_by: { join: 'right' }, speed: 60, holder };
  change(2, { moving: { figures: { ...rows, join: figures({ watermark: 2_000 }) } }, derived: { event_time } });
  const cells = screen.getAllByRole('row').map((row) => [...row.children].map((cell) => cell.textContent));
  expect(cells[0]).toEqual(['Name', 'Low Watermark', 'Behind the Newest', 'Held Back by']);
  expect(screen.getByText(/^Event-time speed/).textContent).toBe('Event-time speed: 60\u202f× real time');
  const plain = cells.slice(1).map(([name, , behind, by]) => [name, behind?.replaceAll('\u202f', ' '), by]);
  expect(plain).toEqual([
    ['left', '0 ms', '–'],
    ['right', '3 s', 'subtask 1, split p3: nothing to read'],
    ['join', '3 s', 'input right'],
  ]);
  change(3, { derived: { event_time: { ...event_time, is_live: true } } });
  expect(screen.getByText('Lag')).toBeTruthy();
});

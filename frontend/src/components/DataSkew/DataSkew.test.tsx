// @vitest-environment happy-dom
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { LiveJob } from '../../gen/contract';
import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { DataSkew } from './DataSkew';

const FIRST = liveJob({ read: [], count: ['read'] });
const topic = `job:${FIRST.static.id}` as const;
const onSelect = vi.fn();
let socket: ScriptedSocket;

beforeEach(() => {
  socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: FIRST });
  render(
    <LiveContext value={connection}>
      <JobProvider value={FIRST.static.id}>
        <DataSkew onSelect={onSelect} />
      </JobProvider>
    </LiveContext>,
  );
});

afterEach(cleanup);

function change(version: number, derived: Partial<LiveJob['derived']>) {
  act(() => socket.says({ type: 'change', topic, from: version - 1, version, patch: { version, derived } }));
}

test('a job without vertices of several subtasks has no table', () => {
  expect(screen.queryByRole('table')).toBeNull();
});

test('the worst vertex comes first, with the subtask that gets most, and leads there', () => {
  const read = [0.1, 1.2, 0, null, null, null] as const;
  const count = [0.5, 2, 3, 1.25, 3.46, 1] as const;
  change(2, { skew: { read: [...read], count: [...count] } });
  const cells = screen.getAllByRole('row').map((row) => [...row.children].map((cell) => cell.textContent));
  expect(cells.slice(1)).toEqual([
    ['count', '50%', '2.0 ×', '3', '125%', '3.5 ×', '1'],
    ['read', '10%', '1.2 ×', '0', '–', '–', '–'],
  ]);
  fireEvent.click(screen.getByRole('button', { name: 'count' }));
  expect(onSelect).toHaveBeenCalledExactlyOnceWith('count');
});

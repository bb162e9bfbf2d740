// @vitest-environment happy-dom
import { act, cleanup, render, screen } from '@testing-library/react';
import { Profiler } from 'react';
import { afterEach, beforeEach, expect, test } from 'vitest';

import type { LiveJob } from '../../gen/contract';
import { JobProvider } from '../../hooks/useJob';
import { LiveContext } from '../../hooks/useLive';
import { cause, figures, liveJob } from '../../model/testData';
import { LiveConnection } from '../../store/liveConnection';
import { ScriptedSocket } from '../../store/scriptedSocket';
import { VertexNode } from './JobGraph';

const FIRST = liveJob({ source: [], map: ['source'], sink: ['map'] });
const topic = `job:${FIRST.static.id}` as const;
let socket: ScriptedSocket;
let rendered: string[];

beforeEach(() => {
  socket = new ScriptedSocket();
  const connection = new LiveConnection(() => socket);
  connection.start();
  socket.onopen?.();
  connection.subscribe(topic, () => undefined);
  socket.says({ type: 'snapshot', topic, version: 1, data: FIRST });
  rendered = [];
  render(
    <LiveContext value={connection}>
      <JobProvider value={FIRST.static.id}>
        {FIRST.static.order.map((id) => (
          <Profiler key={id} id={id} onRender={(name) => rendered.push(name)}>
            <VertexNode id={id} isSelected={false} onSelect={() => undefined} />
          </Profiler>
        ))}
      </JobProvider>
    </LiveContext>,
  );
  rendered = [];
});

afterEach(cleanup);

function change(version: number, patch: { now?: number; moving?: object; derived?: LiveJob['derived'] }) {
  const data = { version, ...patch };
  act(() => socket.says({ type: 'change', topic, from: version - 1, version, patch: data }));
}

test('a change of one vertex renders that vertex only', () => {
  change(2, { moving: { figures: { map: figures({ records_in_per_second: 41 }) } } });
  expect(rendered).toEqual(['map']);
  expect(screen.getByText(/41/)).toBeTruthy();
  change(3, { moving: { vertices: { sink: { state: 'FAILED' } } } });
  expect(rendered).toEqual(['map', 'sink']);
});

test('the size of the state in the latest checkpoint stands at its vertex', () => {
  expect(screen.queryByText('State')).toBeNull();
  change(2, { moving: { figures: { map: figures({ state_size: 2_048 }), sink: figures({ state_size: 0 }) } } });
  expect(screen.getAllByText('State').map((each) => each.nextSibling?.textContent)).toEqual(['2.00\u202fKiB']);
});

test('what is about the whole job renders no vertex', () => {
  change(2, { moving: { job: { restarts: 3 }, exceptions: {} } });
  expect(rendered).toEqual([]);
});

test('the bottleneck that the server has found is marked, and unmarked', () => {
  change(2, { derived: { causes: { limit: cause('map') } } });
  expect(screen.getByText('bottleneck')).toBeTruthy();
  expect(rendered).toEqual(['map']);
  change(3, { derived: { causes: { limit: cause('map', { cause: 'unknown' }) } } });
  expect(screen.queryByText('bottleneck')).toBeNull();
  change(4, { derived: { causes: { limit: cause('sink') } } });
  expect(rendered.slice(1).toSorted()).toEqual(['map', 'sink']);
});

test('of replayed data a watermark is behind the newest one, whatever the clock says', () => {
  const event_time = { newest: 5_000, is_live: false, held_by: {} };
  const watermark = { map: figures({ watermark: 2_000 }), sink: figures({ watermark: 5_000 }) };
  change(2, { now: 9_000_000, moving: { figures: watermark }, derived: { causes: {}, event_time } });
  expect(screen.queryByText('Lag')).toBeNull();
  expect(screen.getAllByText('Behind').map((label) => label.parentElement?.textContent)).toHaveLength(1);
  expect(screen.getByText('Behind').parentElement?.textContent).toMatch(/^Behind 3\ss$/);
});

test('the lag of a watermark grows with the time of the document', () => {
  const event_time = { newest: 0, is_live: true, live: { map: true }, held_by: {} };
  change(2, {
    now: 1_000,
    moving: { figures: { map: figures({ watermark: 0 }) } },
    derived: { causes: {}, event_time },
  });
  rendered = [];
  change(3, { now: 3_000 });
  expect(screen.getByText('Lag').parentElement?.textContent).toMatch(/^Lag 3\ss$/);
  expect(rendered).toEqual(['map']);
});

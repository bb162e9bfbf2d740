import { expect, test } from 'vitest';

import { lastedOf, longestOf, nameOf, phasesText, scaleOf, segmentsOf } from './gantt';
import { checkpointTrace, subtaskTrace } from './testData';

const PHASES = { 'start-delay': 20, alignment: 700, sync: 0, async: 60, rest: 20 };

test('a bar has the phases of the slowest subtask, then the commit', () => {
  const trace = checkpointTrace(1, {
    subtasks: [subtaskTrace({ phases: PHASES }), subtaskTrace()],
    commit_duration: 30,
  });
  expect(segmentsOf(trace, 0).map(({ phase }) => phase)).toEqual([
    'start-delay',
    'alignment',
    'async',
    'rest',
    'commit',
  ]);
});

test('a bar without an acknowledgement says nothing of phases, and grows', () => {
  const subtasks = [subtaskTrace({ phases: {} })];
  const running = checkpointTrace(1, { status: 'IN_PROGRESS', duration: undefined, subtasks });
  expect(lastedOf(running, 5_000)).toBe(4_000);
  expect(segmentsOf(running, 5_000)).toEqual([{ phase: null, duration: 4_000 }]);
  expect(phasesText(segmentsOf(running, 5_000))).toBe('Not known 4\u202fs');
});

test('what a failed checkpoint did after its last acknowledgement is not known', () => {
  const trace = checkpointTrace(1, { status: 'FAILED', duration: 1_000, subtasks: [subtaskTrace({ phases: PHASES })] });
  expect(segmentsOf(trace, 0).at(-1)).toEqual({ phase: null, duration: 200 });
});

test('the longest phase of a subtask is found, unless there is none', () => {
  expect(longestOf(subtaskTrace({ phases: PHASES }))).toBe('alignment');
  expect(longestOf(subtaskTrace({ phases: {} }))).toBeNull();
});

test('a bar that is far longer than the others is cut', () => {
  expect(scaleOf([])).toBe(1);
  expect(scaleOf([0, 0])).toBe(1);
  expect(scaleOf([100, 200, 400])).toBe(400);
  expect(scaleOf([...Array.from({ length: 20 }, () => 100), 600_000])).toBe(200);
});

test('an unknown phase keeps its name', () => {
  expect(nameOf('newer' as 'sync')).toBe('newer');
});

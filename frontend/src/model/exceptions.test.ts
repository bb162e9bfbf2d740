import { expect, test } from 'vitest';

import { attemptsOf, exceptionParts, shortPlace, vertexOfException } from './exceptions';

const REPORT = 'state of operators that the job lacks\n  dropped  count\n  new      sum';

test('a stack trace is shown whole below the message', () => {
  const stacktrace = 'Traceback (most recent call last):\n  File "job.py", line 1\nValueError: boom\n';
  expect(exceptionParts({ message: 'boom', stacktrace })).toEqual({ headline: 'boom', trace: stacktrace.trimEnd() });
});

test.each(['', REPORT])('a report keeps its lines, and says nothing twice', (stacktrace) => {
  expect(exceptionParts({ message: REPORT, stacktrace })).toEqual({
    headline: 'state of operators that the job lacks',
    trace: '  dropped  count\n  new      sum',
  });
});

test('a message that is its own trace stands there once', () => {
  expect(exceptionParts({ message: 'slot 0 was lost', stacktrace: 'slot 0 was lost\n' }).trace).toBe('');
});

test('the vertex that failed is the one that is named, or the only one with the name of the task', () => {
  const vertices = [
    { id: 'a', name: 'map' },
    { id: 'b', name: 'map (2/3)' },
    { id: 'c', name: 'sink' },
    { id: 'd', name: 'sink' },
  ];
  expect(vertexOfException({ vertex: 'c', task_name: 'map (1/1)' }, vertices)).toBe('c');
  expect(vertexOfException({ task_name: 'map (1/2)' }, vertices)).toBe('a');
  expect(vertexOfException({ vertex: '', task_name: 'map (2/3) (1/2)' }, vertices)).toBe('b');
  expect(vertexOfException({ task_name: 'sink (1/1)' }, vertices)).toBeNull();
  expect(vertexOfException({ task_name: '' }, vertices)).toBeNull();
});

test('attempts in a row are a range', () => {
  expect(attemptsOf([7, 5, 4, 3].map((attempt) => ({ attempt })))).toBe('attempts 3–5, 7');
  expect(attemptsOf([{ attempt: 0 }])).toBe('attempt 0');
});

test('a place is named without its directories', () => {
  expect(shortPlace('/home/me/job.py:41')).toBe('job.py:41');
  expect(shortPlace('job.py:41')).toBe('job.py:41');
});

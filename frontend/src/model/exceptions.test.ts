import { expect, test } from 'vitest';

import { exceptionParts } from './exceptions';

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

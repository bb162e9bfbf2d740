import { expect, test } from 'vitest';

import { jobException } from '../testData';
import { failedAt, troubleReader } from './failures';

const LINES = [
  { node: null, first: 5, last: 6, code_line: 1 },
  { node: 'n1', first: 10, last: 14, code_line: 1 },
  { node: 'n2', first: 20, last: 22, code_line: null },
];

const trace = (...frames: string[]) => ['Traceback (most recent call last):', ...frames, 'ValueError: x'].join('\n');

test('the innermost frame of the program is the place', () => {
  const stacktrace = trace(
    '  File "/srv/runtime/operators/map_operators.py", line 11, in run',
    '  File "/tmp/a1/hot-auctions-v3.py", line 21, in outer',
    '  File "/tmp/a1/hot-auctions-v3.py", line 12, in convert',
    '  File "/usr/lib/python3/json/decoder.py", line 12, in decode',
  );
  expect(failedAt({ stacktrace, message: '' }, 3, LINES)).toEqual({ node: 'n1', line: 3 });
  expect(failedAt({ stacktrace, message: '' }, 4, LINES)).toBeNull();
});

test('without a frame the definition of the operator is the place', () => {
  const stacktrace = trace("operator 'Sums' is defined at hot-auctions-v3.py:20");
  expect(failedAt({ stacktrace, message: '' }, 3, LINES)).toEqual({ node: 'n2', line: null });
});

test('shared code belongs to no node', () => {
  expect(failedAt({ stacktrace: trace('  File "x-v1.py", line 5, in f'), message: '' }, 1, LINES)).toBeNull();
});

test('failures and calls that do not return are counted by node, and again only when there are others', () => {
  const read = troubleReader(3, LINES);
  const stack = (line: number) => `  File "/x/job-v3.py", line ${line}, in f`;
  const failure = (line: number) => jobException({ stacktrace: trace(stack(line)) });
  const stall = { vertex: 'v', subtask: 0, task_name: 'f (1/1)', slot: 1, since: 0, stack: stack(21) };
  const exceptions = { a: failure(10), b: failure(12), c: failure(21), d: failure(5), e: failure(99) };
  const found = read({ exceptions, stalls: { s: stall } });
  expect([...found]).toEqual([
    ['n1', { failures: 2, stalls: 0 }],
    ['n2', { failures: 1, stalls: 1 }],
  ]);
  const stalls = {};
  expect([...read({ exceptions, stalls }).values()].map((trouble) => trouble.stalls)).toEqual([0, 0]);
  expect(read({ exceptions, stalls })).toBe(read({ exceptions, stalls }));
});

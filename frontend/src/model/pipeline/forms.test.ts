import { expect, test } from 'vitest';

import type { FormSchema, Problem } from './catalog';
import { codeLine, codeProblems } from './forms';

function problem(field: string | null, more: Partial<Problem> = {}): Problem {
  return {
    id: `${field ?? ''} ${more.message ?? ''}`,
    node: 'n1',
    port: null,
    field,
    span: null,
    severity: 'error',
    code: 'undefined-name',
    message: 'wrong',
    hint: '',
    fixes: [],
    related: [],
    ...more,
  };
}

const LINES = ['def f(row):', '    return g(row)', ''];

test('a problem of a line marks what it names, and without a span the text of the line', () => {
  const found = codeProblems(
    [
      problem('/params/code/1', { message: 'all' }),
      problem('/params/code/1', { span: [11, 12], message: 'g' }),
      problem('/params/code/0', { severity: 'incomplete', message: 'first' }),
      problem('/params/code/2', { span: [4, 5], message: 'end' }),
      problem('/params/coded/0', { message: 'elsewhere' }),
    ],
    '/params/code',
    LINES,
  );
  const text = LINES.join('\n');
  expect(found.marks.map(({ from, to, message, severity }) => [text.slice(from, to), message, severity])).toEqual([
    ['def f(row):', 'first', 'warning'],
    ['return g(row)', 'all', 'error'],
    ['g', 'g', 'error'],
    ['', 'end', 'error'],
  ]);
  expect(found.worst?.message).toBe('all');
});

test('a problem of the whole code is told and marks nothing; one of a line that is gone neither fails', () => {
  const found = codeProblems([problem('/params/code'), problem('/params/code/9')], '/params/code', LINES);
  expect(found.marks).toEqual([]);
  expect(found.worst?.field).toBe('/params/code');
  expect(codeProblems([problem('/params/keys')], '/params/code', LINES)).toEqual({ marks: [], worst: null });
});

test('a jump to a line of Python opens it; an item of another list is no line', () => {
  const schema: FormSchema = {
    properties: { code: { type: 'array', 'x-widget': 'python' }, keys: { type: 'array', 'x-widget': 'columns' } },
  };
  expect(codeLine(schema, '/params/code/4')).toBe(5);
  expect(codeLine(schema, '/params/code')).toBeNull();
  expect(codeLine(schema, '/params/keys/4')).toBeNull();
  expect(codeLine(schema, null)).toBeNull();
  expect(codeLine(undefined, '/params/code/4')).toBeNull();
});

import { expect, test } from 'vitest';

import { NOTHING_KNOWN, type Validation } from '../model/pipeline/catalog';
import { line } from '../model/pipeline/testPipelines';
import { type ValidationAnswer, validationOf } from './pipelines';

const NO_PORTS = { inputs: [], outputs: [] };

function answer(ids: readonly string[], more: Partial<ValidationAnswer> = {}): ValidationAnswer {
  const each = <T>(value: T) => Object.fromEntries(ids.map((id) => [id, value]));
  return {
    tag: 'new',
    since: null,
    problems: [],
    facts: each({ out: null }),
    ports: each(NO_PORTS),
    labels: each('a label'),
    inactive: [],
    is_deployable: true,
    ...more,
  };
}

test('nodes that an answer leaves out are as the earlier answer said', () => {
  const document = line();
  const ids = Object.keys(document.nodes);
  const before: Validation = validationOf(answer(ids), document, NOTHING_KNOWN);
  expect(Object.keys(before.nodes)).toEqual(ids);
  const [first = '', second = '', ...rest] = ids;
  const labels = { [first]: 'another' };
  const later = validationOf(
    answer([first], { since: 'new', tag: 'newer', labels, inactive: [second] }),
    document,
    before,
  );
  expect([later.tag, later.nodes[first]?.label]).toEqual(['newer', 'another']);
  expect(later.nodes[second]).toEqual({ ...before.nodes[second], is_active: false });
  // the same objects: nothing of them is painted again
  for (const id of rest) expect(later.nodes[id]).toBe(before.nodes[id]);
});

test('nodes that are gone stay away, and a whole answer forgets the earlier one', () => {
  const document = line();
  const ids = Object.keys(document.nodes);
  const before = validationOf(answer(ids), document, NOTHING_KNOWN);
  const [gone = '', ...left] = ids;
  const nodes = Object.fromEntries(Object.entries(document.nodes).filter(([id]) => id !== gone));
  const later = validationOf(answer([], { since: 'new' }), { ...document, nodes }, before);
  expect(Object.keys(later.nodes)).toEqual(left);
  expect(validationOf(answer([]), document, before).nodes).toEqual({});
});

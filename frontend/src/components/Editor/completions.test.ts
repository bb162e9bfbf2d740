import { CompletionContext } from '@codemirror/autocomplete';
import { EditorState } from '@codemirror/state';
import { expect, test } from 'vitest';

import type { SqlFunction } from '../../model/pipeline/catalog';
import { completions } from './completions';

const FUNCTIONS: readonly SqlFunction[] = [
  { name: 'collect', detail: '(x) → LIST', is_aggregate: true },
  { name: 'date_trunc', detail: '(unit: literal, t: time) → as t', is_aggregate: false },
];

function offered(takesAggregates: boolean) {
  const source = completions('sql', [{ name: 'Mixed Case', type: 'long' }], FUNCTIONS, takesAggregates);
  const context = new CompletionContext(EditorState.create({ doc: 'da' }), 2, true);
  return new Map((source(context)?.options ?? []).map((each) => [each.label, each]));
}

test('functions come from the catalog, and columns in quotes where SQL needs them', () => {
  const found = offered(false);
  expect(found.get('date_trunc')).toMatchObject({ detail: '(unit: literal, t: time) → as t', apply: 'date_trunc(' });
  expect(found.get('Mixed Case')).toMatchObject({ detail: 'long', apply: '"Mixed Case"' });
  expect(found.has('AS')).toBe(true);
});

test('aggregates and FILTER are offered only where rows are aggregated', () => {
  expect(['collect', 'FILTER (WHERE'].map((word) => offered(false).has(word))).toEqual([false, false]);
  expect(['collect', 'FILTER (WHERE'].map((word) => offered(true).has(word))).toEqual([true, true]);
});

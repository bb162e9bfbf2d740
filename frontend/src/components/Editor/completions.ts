/** What is offered while typing: columns of the input with their types, functions with what they take. */

import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete';

import type { Column, SqlFunction } from '../../model/pipeline/catalog';

type Source = (context: CompletionContext) => CompletionResult | null;

const WORDS = [
  'AND',
  'OR',
  'NOT',
  'IS NULL',
  'IS NOT NULL',
  'BETWEEN',
  'IN',
  'LIKE',
  'AS',
  'CASE',
  'WHEN',
  'THEN',
  'END',
];

function option(label: string, detail: string, type: string, apply = label): Completion {
  return { label, detail, type, apply };
}

/** A column as SQL writes it: in quotes if it is no plain word. */
function inSql(name: string): string {
  return /^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

function called({ name, detail }: SqlFunction): Completion {
  return option(name, detail, 'function', `${name}(`);
}

/**
 * What is offered in a field.
 *
 * Aggregates, and FILTER behind them, are offered where `takesAggregates`: elsewhere expressions see one row.
 */
export function completions(
  language: 'sql' | 'python',
  columns: readonly Column[],
  functions: readonly SqlFunction[] = [],
  takesAggregates = false,
): Source {
  if (language === 'python') {
    const found = columns.map(({ name, type }) => option(name, type, 'property'));
    return (context) => {
      const before = context.matchBefore(/\["?[\w ]*|\['?[\w ]*/);
      if (before === null) return null;
      const quote = /^\["|^\['/.exec(before.text);
      return quote === null ? null : { from: before.from + 2, options: found };
    };
  }
  const options = [
    ...columns.map(({ name, type }) => ({ ...option(name, type, 'property', inSql(name)), boost: 10 })),
    ...functions.filter((each) => takesAggregates || !each.is_aggregate).map(called),
    ...[...WORDS, ...(takesAggregates ? ['FILTER (WHERE'] : [])].map((word) => option(word, '', 'keyword')),
  ];
  return (context) => {
    const before = context.matchBefore(/[\w"]+/);
    if (before === null && !context.explicit) return null;
    return { from: before?.from ?? context.pos, options, validFor: /^[\w"]*$/ };
  };
}

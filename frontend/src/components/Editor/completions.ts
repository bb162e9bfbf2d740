/** What is offered while typing: columns of the input with their types, functions with what they take. */

import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete';

import type { Column } from '../../model/pipeline/catalog';

type Source = (context: CompletionContext) => CompletionResult | null;

const AGGREGATES = ['count(*)', 'sum(x)', 'min(x)', 'max(x)', 'avg(x)', 'first(x)', 'last(x)'];
const FUNCTIONS = [
  ...['abs(x)', 'round(x, digits)', 'floor(x)', 'ceil(x)', 'coalesce(a, b)', 'nullif(a, b)', 'greatest(a, b)'],
  ...['least(a, b)', 'lower(text)', 'upper(text)', 'length(text)', 'concat(a, b)', 'substr(text, start, length)'],
  ...['replace(text, from, to)', 'starts_with(text, start)', 'strpos(text, part)', 'date_part(part, time)'],
];
const WORDS = [
  'AND',
  'OR',
  'NOT',
  'IS NULL',
  'IS NOT NULL',
  'BETWEEN',
  'IN',
  'LIKE',
  'CAST',
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

function called(signature: string): Completion {
  const name = signature.slice(0, signature.indexOf('('));
  return option(name, signature.slice(name.length), 'function', `${name}(`);
}

export function completions(language: 'sql' | 'python', columns: readonly Column[]): Source {
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
    ...[...AGGREGATES, ...FUNCTIONS].map(called),
    ...WORDS.map((word) => option(word, '', 'keyword')),
  ];
  return (context) => {
    const before = context.matchBefore(/[\w"]+/);
    if (before === null && !context.explicit) return null;
    return { from: before?.from ?? context.pos, options, validFor: /^[\w"]*$/ };
  };
}

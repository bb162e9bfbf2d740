/** Keys as they are typed, and state as it is shown. */

import type { KeyField, KeyedState, StateSnapshot, StateTimer, StateValue, Watermark } from '../gen/contract';
import { t } from '../texts/t';

export type KeyInput = 'text' | 'number' | 'boolean' | 'json';

/** Types that a key of no declared type can be given. */
export const KEY_TYPES = ['string', 'long', 'double', 'boolean'] as const;

const NUMBERS = new Set(['byte', 'short', 'int', 'long', 'big_int', 'float', 'double', 'big_dec']);
const TEXTS = new Set(['string', 'char', 'instant', 'sql_date', 'sql_time', 'sql_timestamp', 'primitive_array<byte>']);
const EXAMPLES: Readonly<Record<string, string>> = {
  instant: '2026-01-31T14:03:10.000Z',
  sql_date: '2026-01-31',
  sql_time: '14:03:10',
  sql_timestamp: '2026-01-31T14:03:10',
  'primitive_array<byte>': 'hexadecimal',
};

export function inputOf(type: string): KeyInput {
  if (NUMBERS.has(type)) return 'number';
  if (type === 'boolean') return 'boolean';
  return TEXTS.has(type) ? 'text' : 'json';
}

/** How a key of the type is written, where that is not plain. */
export function exampleOf(type: string): string {
  return EXAMPLES[type] ?? (inputOf(type) === 'json' ? 'JSON' : '');
}

export type TypedKey = { readonly key: unknown } | { readonly problems: readonly (string | null)[] };

/** The key that was typed, as JSON: numbers stay texts, as a script's numbers cannot hold all of them. */
export function keyOf(fields: readonly KeyField[], texts: readonly string[]): TypedKey {
  const parts = fields.map(({ type }, index) => partOf(type, texts[index] ?? ''));
  if (parts.some((part) => 'problem' in part))
    return { problems: parts.map((part) => ('problem' in part ? part.problem : null)) };
  const values = parts.map((part) => ('value' in part ? part.value : null));
  return { key: fields.length === 1 && fields[0]?.name === '' ? values[0] : values };
}

function partOf(type: string, text: string): { value: unknown } | { problem: string } {
  switch (inputOf(type)) {
    case 'text':
      return { value: text };
    case 'boolean':
      return { value: text === 'true' };
    case 'number': {
      const trimmed = text.trim();
      const isWhole = !['float', 'double', 'big_dec'].includes(type);
      const isRight = isWhole ? /^-?\d+$/.test(trimmed) : trimmed !== '' && !Number.isNaN(Number(trimmed));
      return isRight ? { value: trimmed } : { problem: isWhole ? t('Must be a whole number') : t('Must be a number') };
    }
    case 'json':
      try {
        return { value: JSON.parse(text) as unknown };
      } catch {
        return { problem: t('Must be JSON') };
      }
  }
}

/** A key, a namespace or a part of a value in one line. */
export function lineOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return `(${value.map(lineOf).join(', ')})`;
  return JSON.stringify(value);
}

/** A key where there must be something to see, also of an empty text or of white space. */
export function nameOfKey(key: unknown): string {
  const line = lineOf(key);
  return line.trim() === '' ? JSON.stringify(line) : line;
}

/** A value as text: scalars as they are, everything else as indented JSON. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return JSON.stringify(value, null, 2);
}

/** Start and end of a time window, if a namespace is one. */
export function windowOf(windowType: string, namespace: unknown): readonly [number, number] | null {
  if (!windowType.includes('TimeWindow') || !Array.isArray(namespace)) return null;
  const [start, end] = namespace as unknown[];
  return typeof start === 'number' && typeof end === 'number' ? [start, end] : null;
}

/** A timer of event time at the end of all time, as JSON numbers tell it, fires at the end of input. */
export function timerTime({ is_event_time: isEventTime, timestamp }: StateTimer): Watermark {
  return isEventTime && timestamp > Number.MAX_SAFE_INTEGER ? 'max' : timestamp;
}

export interface Item {
  readonly name: string;
  readonly value: unknown;
  readonly touched: number | null;
}

/** The items of a list by index, or of a map by key; null: the value is one. */
export function itemsOf(kind: KeyedState['kind'], value: StateValue): readonly Item[] | null {
  if (!Array.isArray(value.value) || (kind !== 'list' && kind !== 'map' && kind !== 'columnar')) return null;
  const touched = Array.isArray(value.touched) ? value.touched : [];
  return (value.value as unknown[]).map((item, index) => {
    const entry = kind === 'map' ? (item as { key: unknown; value: unknown }) : { key: String(index), value: item };
    return { name: lineOf(entry.key), value: entry.value, touched: touched[index] ?? null };
  });
}

/** What a snapshot is called. */
export function nameOf({ kind, checkpoint_id: id }: StateSnapshot): string {
  return id === null ? kind : `${kind} ${id}`;
}

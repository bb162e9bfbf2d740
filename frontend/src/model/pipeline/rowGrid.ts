/** Rows that are typed in: texts of cells become values of the columns' types, and back. */

import type { Column } from './catalog';
import type { Json } from './document';
import { isObject } from './preview';
import type { SampleRow } from './samples';

/** A row with its event time, or a watermark. */
export type GivenItem = SampleRow | { readonly watermark: number };

export function isWatermark(item: GivenItem): item is { readonly watermark: number } {
  return 'watermark' in item;
}

const WHOLE = new Set(['long', 'int', 'integer', 'short', 'byte', 'bigint', 'smallint', 'tinyint']);
const FLOATING = new Set(['double', 'float']);
const TEXTS = new Set(['string', 'char', '']);

/** What stands in a cell: nothing for null, and quotes around texts that would be read as something else. */
export function editText(value: Json | undefined, type: string): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string') return JSON.stringify(value);
  const isPlain = value !== '' && !value.startsWith('"') && (TEXTS.has(type) ? type !== '' : true);
  return isPlain ? value : JSON.stringify(value);
}

/** What was meant by a cell's text; what does not fit the type stays a text, and the server says so. */
export function parseCell(text: string, type: string): Json {
  if (text === '') return null;
  if (text.startsWith('"')) return parsed(text) ?? text;
  const plain = text.trim();
  if (WHOLE.has(type)) {
    const number = Number(plain);
    return plain !== '' && Number.isSafeInteger(number) ? number : plain;
  }
  if (FLOATING.has(type)) {
    const number = Number(plain);
    return plain !== '' && Number.isFinite(number) ? number : plain;
  }
  if (type === 'boolean') return plain === 'true' ? true : plain === 'false' ? false : plain;
  if (type === 'string' || type === 'char') return text;
  // nested values, and columns whose type nobody knows
  const found = parsed(plain);
  return found === undefined || typeof found === 'string' ? text : found;
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Columns of a grid: those that are known, and what else the rows have. */
export function gridColumns(known: readonly Column[] | null, rows: readonly Json[]): readonly Column[] {
  const columns = (known ?? []).map(({ name, type }) => ({ name, type }));
  const names = new Set(columns.map(({ name }) => name));
  for (const row of rows) {
    if (!isObject(row)) continue;
    for (const name of Object.keys(row)) {
      if (names.has(name) || name === '$kind') continue;
      names.add(name);
      columns.push({ name, type: '' });
    }
  }
  return columns;
}

/** The row with another value in a column; a row that is no object becomes the value itself. */
export function withCell(row: Json, column: string, value: Json): Json {
  return isObject(row) ? { ...row, [column]: value } : value;
}

export function emptyRow(columns: readonly Column[]): Json {
  return Object.fromEntries(columns.map(({ name }) => [name, null]));
}

/** An event time or a watermark as it was typed: ms, or a date and time in UTC; null: neither. */
export function parseTime(text: string): number | null {
  const plain = text.trim();
  if (/^-?\d+$/.test(plain)) return Number(plain);
  if (!/^\d{4}-\d\d-\d\d/.test(plain)) return null;
  const ms = Date.parse(`${plain.replace(' ', 'T')}${plain.endsWith('Z') || plain.length <= 10 ? '' : 'Z'}`);
  return Number.isNaN(ms) ? null : ms;
}

export function timeText(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '';
  const date = new Date(ms);
  // small numbers are what people write in tests
  if (Number.isNaN(date.getTime()) || Math.abs(ms) < 86_400_000 * 365) return String(ms);
  return date.toISOString().replace('T', ' ').replace('Z', '');
}

/**
 * The part of a log file that the page holds: whole lines between two byte offsets, grown at the end by following and
 * at the front by reading back. Pure; the offsets are the server's.
 */

import type { LogText } from '../gen/contract';

/** Lines beyond this are dropped at the front: a page that follows for days must not grow for days. */
export const MAX_LINES = 20_000;

export interface LogBuffer {
  readonly lines: readonly string[];
  /** Byte offset of the first line held. */
  readonly start: number;
  /** Byte offset at which to continue. */
  readonly end: number;
  /** Byte offset of the first byte that the server keeps. */
  readonly begin: number;
  readonly size: number;
  /** Number of the first line held, from 1. */
  readonly firstLine: number;
  /** Of all that the server keeps. */
  readonly lineCount: number;
  /** The last line has no line end yet. */
  readonly open: boolean;
}

export const EMPTY_LOG: LogBuffer = {
  lines: [],
  start: 0,
  end: 0,
  begin: 0,
  size: 0,
  firstLine: 1,
  lineCount: 0,
  open: false,
};

/** A buffer from a first read, which begins with a line, as the server's response for the end of a file does. */
export function startWith(part: LogText): LogBuffer {
  return append({ ...EMPTY_LOG, start: part.offset, end: part.offset, firstLine: part.first_line }, part);
}

/** Text that follows. A log that has shrunk was replaced, or what follows is not kept: the buffer starts over. */
export function append(buffer: LogBuffer, part: LogText): LogBuffer {
  const { begin } = part;
  if (part.size < buffer.end) return startWith({ ...part, text: '', next_offset: begin, offset: begin, first_line: 1 });
  if (begin > buffer.end) return startWith(part);
  if (part.text === '') return { ...buffer, begin, size: part.size, end: part.next_offset, lineCount: part.lines };
  const parts = part.text.split('\n');
  const open = parts.at(-1) !== '';
  if (!open) parts.pop();
  const kept = [...buffer.lines];
  if (buffer.open) kept.push((kept.pop() ?? '') + (parts.shift() ?? ''));
  kept.push(...parts);
  const excess = Math.max(0, kept.length - MAX_LINES);
  const dropped = kept.slice(0, excess).reduce((sum, line) => sum + byteLength(line) + 1, 0);
  return {
    lines: excess > 0 ? kept.slice(excess) : kept,
    start: buffer.start + dropped,
    end: part.next_offset,
    begin,
    size: part.size,
    firstLine: buffer.firstLine + excess,
    lineCount: part.lines,
    open,
  };
}

/** Text that precedes, read from `part.offset` up to the buffer's start. A partial first line is dropped. */
export function prepend(buffer: LogBuffer, part: LogText): LogBuffer {
  const cut = part.offset > part.begin ? part.text.indexOf('\n') + 1 : 0;
  const start = part.offset + byteLength(part.text.slice(0, cut));
  const earlier = startWith({ ...part, offset: start, text: part.text.slice(cut) });
  const lines = [...earlier.lines, ...buffer.lines];
  return { ...buffer, lines, start, firstLine: buffer.firstLine - earlier.lines.length };
}

/** Index of a file's line among those held; null if it is not held. */
export function indexOfLine({ firstLine, lines }: LogBuffer, line: number): number | null {
  const index = line - firstLine;
  return index >= 0 && index < lines.length ? index : null;
}

export type LogLevel = 'error' | 'warning' | 'plain';

export function levelOf(line: string): LogLevel {
  if (/\b(ERROR|CRITICAL|FATAL)\b|^Traceback |^\w*(Error|Exception)\b/.test(line)) return 'error';
  return /\bWARN(ING)?\b/.test(line) ? 'warning' : 'plain';
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

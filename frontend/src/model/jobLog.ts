/** The part of a job's log that the page holds: entries by time, grown at both ends. Pure. */

import type { JobLog, JobLogEntry, LogLevel } from '../gen/contract';
import { t } from '../texts/t';

/** Entries beyond this are dropped at the front: a page that follows for days must not grow for days. */
export const MAX_ENTRIES = 20_000;
export const LEVELS: readonly LogLevel[] = ['DEBUG', 'INFO', 'WARN', 'ERROR', 'FATAL'];

/** Who has written, with words for users. */
export const KINDS: Readonly<Record<JobLogEntry['kind'], string>> = {
  log: t('Logs of slots'),
  out: t('Output of slots'),
  jobmanager: t('JobManagers'),
  taskmanager: t('TaskManagers'),
};

/** What is shown of the log, as the address has it; null: everything. */
export interface LogFilter {
  readonly q: string | null;
  readonly level: string | null;
  readonly attempt: string | null;
  readonly slot: string | null;
  readonly vertex: string | null;
  /** Uid. */
  readonly operator: string | null;
  /** Of `KINDS`. */
  readonly kind: string | null;
  /** Epoch ms. */
  readonly from: string | null;
}

export interface JobLogQuery {
  q?: string;
  level?: LogLevel;
  attempt?: number;
  slot?: number;
  vertex?: string;
  operator?: string;
  kind?: JobLogEntry['kind'];
  from?: number;
}

/** What the server is asked for; values in an address that make no sense are left out. */
export function queryOf(filter: LogFilter): JobLogQuery {
  const query: JobLogQuery = {};
  const level = LEVELS.find((each) => each === filter.level);
  if (filter.q !== null && filter.q !== '') query.q = filter.q;
  if (level !== undefined) query.level = level;
  for (const name of ['vertex', 'operator'] as const) {
    const value = filter[name];
    if (value !== null && value !== '') query[name] = value;
  }
  const kind = (Object.keys(KINDS) as JobLogEntry['kind'][]).find((each) => each === filter.kind);
  if (kind !== undefined) query.kind = kind;
  for (const name of ['attempt', 'slot', 'from'] as const) {
    const value = filter[name];
    if (value !== null && /^\d{1,15}$/.test(value)) query[name] = Number(value);
  }
  return query;
}

export interface HeldLog {
  /** The oldest first. */
  readonly entries: readonly JobLogEntry[];
  /** Finds what is older; null: nothing is, or the page holds no more. */
  readonly earlier: string | null;
  /** Finds what is written later. */
  readonly later: string;
  /** Nothing that is not searched yet is newer, epoch ms; null: unknown, or all is searched. */
  readonly searchedTo: number | null;
  /** Bytes that are not searched yet. */
  readonly left: number;
  readonly size: number;
  readonly logs: number;
  readonly leftOut: number;
  /** More was written than the last answer has. */
  readonly isBehind: boolean;
  /** Entries were dropped at the front. */
  readonly isCut: boolean;
}

/** The log after the first answer, which begins with the newest entry. */
export function startWith(part: JobLog): HeldLog {
  return {
    entries: part.entries.toReversed(),
    earlier: part.cursor,
    later: part.follow,
    searchedTo: part.searched_to,
    left: part.left,
    size: part.size,
    logs: part.logs,
    leftOut: part.left_out,
    isBehind: false,
    isCut: false,
  };
}

/** The log with what the server has found further back. */
export function withEarlier(held: HeldLog, part: JobLog): HeldLog {
  const entries = [...part.entries.toReversed(), ...held.entries];
  const isFull = entries.length >= MAX_ENTRIES;
  return {
    ...held,
    entries,
    earlier: isFull ? null : part.cursor,
    searchedTo: part.searched_to,
    left: part.left,
    isCut: held.isCut || (isFull && part.cursor !== null),
  };
}

/** The log with what was written since. */
export function withLater(held: HeldLog, part: JobLog): HeldLog {
  const later = part.cursor ?? held.later;
  const { size, logs } = part;
  const isBehind = !part.is_complete;
  if (part.entries.length === 0) return { ...held, later, size, logs, isBehind };
  const entries = merged(held.entries, part.entries);
  const isFull = entries.length > MAX_ENTRIES;
  return {
    ...held,
    entries: isFull ? entries.slice(-MAX_ENTRIES) : entries,
    earlier: isFull ? null : held.earlier,
    later,
    size,
    logs,
    isBehind,
    isCut: held.isCut || isFull,
  };
}

/** Both by time: what a process has logged comes some seconds late. Entries without a time stay behind the one before. */
function merged(held: readonly JobLogEntry[], added: readonly JobLogEntry[]): JobLogEntry[] {
  const first = added.find(({ time }) => time !== null)?.time ?? Infinity;
  const kept = held.findLastIndex(({ time }) => time !== null && time <= first) + 1;
  const entries = held.slice(0, kept);
  const rest = held.slice(kept);
  for (const entry of added) {
    const later = rest.findIndex(({ time }) => time !== null && time > (entry.time ?? -Infinity));
    entries.push(...rest.splice(0, later === -1 ? rest.length : later), entry);
  }
  return [...entries, ...rest];
}

/** A line on the page: the first one of an entry, or one that goes on. */
export interface LogRow {
  readonly entry: JobLogEntry;
  readonly text: string;
  readonly isFirst: boolean;
}

export function rowsOf(entries: readonly JobLogEntry[]): LogRow[] {
  return entries.flatMap((entry) =>
    entry.text.split('\n').map((text, index) => ({ entry, text, isFirst: index === 0 })),
  );
}

export function severityOf(level: JobLogEntry['level']): 'error' | 'warning' | 'plain' {
  if (level === 'ERROR' || level === 'FATAL') return 'error';
  return level === 'WARN' ? 'warning' : 'plain';
}

/** What a form needs to know of a field: its name for people, its kind, the branch that a value means, its problem. */

import { t } from '../../texts/t';
import type { FormSchema, Problem, Severity } from './catalog';
import type { Json } from './document';

/** The type of a field beside null. */
export function kindOf(schema: FormSchema): string {
  if (schema.type === undefined) return 'string';
  return typeof schema.type === 'string' ? schema.type : (schema.type.find((type) => type !== 'null') ?? 'string');
}

/** Whether null stands for "not given". */
export function isMissing(schema: FormSchema): boolean {
  return Array.isArray(schema.type) && schema.type.includes('null');
}

/** "events_per_second" → "Events per second", where the schema has no title. */
export function fieldTitle(schema: FormSchema, name: string): string {
  if (schema.title !== undefined) return schema.title;
  const words = name.replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The index of the branch of oneOf that a value means; -1 if none. Branches differ by their constants, or by null. */
export function chosenBranch(branches: readonly FormSchema[], value: Json | undefined): number {
  return branches.findIndex((branch) => {
    if (branch.type === 'null') return value === null;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const object = value as Readonly<Record<string, Json>>;
    return Object.entries(branch.properties ?? {}).every(
      ([name, part]) => part.const === undefined || object[name] === part.const,
    );
  });
}

/** The worst problem of exactly this field. */
export function problemAt(problems: readonly Problem[], pointer: string): Problem | null {
  const exact = problems.filter(({ field }) => field === pointer);
  return exact.find(({ severity }) => severity === 'error') ?? exact[0] ?? null;
}

/** The line of Python that a problem is in, from 1; null: its field is no line of a field of Python, or of shared code. */
export function codeLine(schema: FormSchema | undefined, field: string | null): number | null {
  const [, shared] = /^\/code\/(\d+)$/.exec(field ?? '') ?? [];
  if (shared !== undefined) return Number(shared) + 1;
  const [, name, index] = /^\/params\/([^/]+)\/(\d+)$/.exec(field ?? '') ?? [];
  if (name === undefined || schema?.properties?.[name]?.['x-widget'] !== 'python') return null;
  return Number(index) + 1;
}

/** A place in a text that something is wrong with: offsets, from and to. */
export interface Mark {
  readonly from: number;
  readonly to: number;
  readonly message: string;
  readonly severity: 'error' | 'warning' | 'info';
}

const MARKED_AS: Readonly<Record<Severity, Mark['severity']>> = {
  error: 'error',
  incomplete: 'warning',
  warning: 'warning',
  info: 'info',
};

export interface CodeProblems {
  /** Of those of a line, in the order of the text. */
  readonly marks: readonly Mark[];
  /** What to show below the field: an error, else the first. */
  readonly worst: Problem | null;
}

/**
 * The problems of a field of Python and of its lines. One of a line marks what it names, else the text of the line
 * without its indentation.
 */
export function codeProblems(problems: readonly Problem[], pointer: string, lines: readonly string[]): CodeProblems {
  const within = problems.filter(({ field }) => field === pointer || field?.startsWith(`${pointer}/`) === true);
  const marks = within.flatMap(({ field, span, message, severity }): Mark[] => {
    const index = Number(field?.slice(pointer.length + 1));
    const line = lines[index];
    if (field === pointer || line === undefined) return [];
    const start = lines.slice(0, index).reduce((sum, { length }) => sum + length + 1, 0);
    const [from, to] = span ?? [line.length - line.trimStart().length, line.length];
    const within = (offset: number) => start + Math.min(offset, line.length);
    return [{ from: within(from), to: within(to), message, severity: MARKED_AS[severity] }];
  });
  marks.sort((one, other) => one.from - other.from);
  return { marks, worst: within.find(({ severity }) => severity === 'error') ?? within[0] ?? null };
}

/** The field that a problem is about, in words: "Window › Size"; empty if it is about the whole node. */
export function fieldWords(field: string | null): string {
  if (field === null) return '';
  const parts = field.split('/').filter((part) => part !== '' && part !== 'params');
  return parts.map((part) => (/^\d+$/.test(part) ? String(Number(part) + 1) : fieldTitle({}, part))).join(' › ');
}

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  sec: 1000,
  second: 1000,
  m: 60_000,
  min: 60_000,
  minute: 60_000,
  h: 3_600_000,
  hour: 3_600_000,
  d: 86_400_000,
  day: 86_400_000,
};

/** "10 s" in milliseconds; null if it is no duration, or none above zero. */
export function millis(value: Json | undefined): number | null {
  const match = typeof value === 'string' ? /^(\d+) *([a-z]+?)s?$/i.exec(value.trim()) : null;
  const whole = typeof value === 'string' ? /^(\d+) *(ms|s)$/i.exec(value.trim()) : null;
  const found = whole ?? match;
  const unit = UNITS[(found?.[2] ?? '').toLowerCase()];
  const amount = Number(found?.[1] ?? 0);
  return unit === undefined || amount === 0 ? null : amount * unit;
}

const DURATION = { type: 'string', format: 'duration', 'x-widget': 'duration' } as const;

/** The settings of a pipeline, as the server's schema of documents has them. */
export const SETTINGS: FormSchema = {
  type: 'object',
  properties: {
    parallelism: { type: ['integer', 'null'], minimum: 1, maximum: 32768, default: null },
    max_parallelism: { type: ['integer', 'null'], minimum: 1, maximum: 32768, default: null },
    execution_mode: { enum: ['streaming', 'micro-batch'], default: 'streaming' },
    checkpointing: {
      default: null,
      oneOf: [
        { type: 'null' },
        {
          type: 'object',
          title: t('every interval'),
          required: ['interval'],
          properties: {
            interval: { ...DURATION, default: '10 s' },
            mode: { enum: ['exactly_once', 'at_least_once'], default: 'exactly_once' },
            unaligned: { type: 'boolean', default: false },
            min_pause: { ...DURATION, default: '0 s' },
          },
        },
      ],
    },
    state_backend: { enum: ['hashmap', 'rocksdb'], default: 'hashmap' },
    watermark_interval: { type: ['string', 'null'], format: 'duration', default: null },
  },
};

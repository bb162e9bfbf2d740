/** The displayed parts of an error. */

import type { FailureOccurrence, JobException } from '../gen/contract';

export interface ExceptionParts {
  /** The message's first line. */
  readonly headline: string;
  /** The stack trace or, without one, the message's other lines; '' if the headline is complete. */
  readonly trace: string;
}

export function exceptionParts({ message, stacktrace }: Pick<JobException, 'message' | 'stacktrace'>): ExceptionParts {
  const headline = (message.trim().split('\n')[0] ?? '').trimEnd();
  const full = stacktrace.trim() === '' ? message.trim() : stacktrace.trimEnd();
  // the engine's own texts begin with the message
  const rest = full === headline || full.startsWith(`${headline}\n`) ? full.slice(headline.length + 1) : full;
  return { headline, trace: rest };
}

/** The vertex that failed; null: it is not known, also where several have the name. */
export function vertexOfException(
  { vertex, task_name: taskName }: Pick<JobException, 'vertex' | 'task_name'>,
  vertices: readonly { readonly id: string; readonly name: string }[],
): string | null {
  if (vertex !== undefined && vertex !== '') return vertex;
  const name = taskName.replace(/ \(\d+\/\d+\)$/, '');
  const [found, another] = vertices.filter((each) => each.name === name);
  return found !== undefined && another === undefined ? found.id : null;
}

/** Without the directories: job.py:41. */
export function shortPlace(place: string): string {
  return place.slice(place.lastIndexOf('/') + 1);
}

/** attempt 3; attempts 3–5, 9. Newest first in, oldest first out. */
export function attemptsOf(occurrences: readonly Pick<FailureOccurrence, 'attempt'>[]): string {
  const attempts = [...new Set(occurrences.map(({ attempt }) => attempt))].toSorted((a, b) => a - b);
  const ranges: [number, number][] = [];
  for (const attempt of attempts) {
    const last = ranges.at(-1);
    if (last?.[1] === attempt - 1) last[1] = attempt;
    else ranges.push([attempt, attempt]);
  }
  const texts = ranges.map(([from, to]) => (from === to ? String(from) : `${from}–${to}`));
  return `${attempts.length === 1 ? 'attempt' : 'attempts'} ${texts.join(', ')}`;
}

/** What is shown of an error. */

import type { JobException } from '../gen/live';

export interface ExceptionParts {
  /** The message's first line. */
  readonly headline: string;
  /** The stack trace or, of an error that has none, the message's other lines; '' if the headline says it all. */
  readonly trace: string;
}

export function exceptionParts({ message, stacktrace }: Pick<JobException, 'message' | 'stacktrace'>): ExceptionParts {
  const headline = (message.trim().split('\n')[0] ?? '').trimEnd();
  const full = stacktrace.trim() === '' ? message.trim() : stacktrace.trimEnd();
  // what the engine itself has to say begins with its message
  const rest = full === headline || full.startsWith(`${headline}\n`) ? full.slice(headline.length + 1) : full;
  return { headline, trace: rest };
}

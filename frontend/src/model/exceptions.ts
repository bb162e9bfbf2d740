/** The displayed parts of an error. */

import type { JobException } from '../gen/contract';

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

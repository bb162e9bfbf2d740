/** Where in a drawn pipeline a failure happened. Pure. */

import type { JobException, ProgramLines } from '../../gen/contract';

export interface FailedAt {
  readonly node: string;
  /** Line of the node's own Python, from 1; null: the line is generated. */
  readonly line: number | null;
}

/**
 * The node at which a job failed: of the innermost frame in the job's own program, else of the operator's definition.
 *
 * `version` is that of the program, which is in the name of its file; `lines` say which of its lines belong to which node.
 */
export function failedAt(
  { stacktrace, message }: Pick<JobException, 'stacktrace' | 'message'>,
  version: number,
  lines: readonly ProgramLines[],
): FailedAt | null {
  const text = stacktrace.trim() === '' ? message : stacktrace;
  const frames = [...text.matchAll(/File "[^"]*-v(\d+)\.py", line (\d+)/g)];
  const definitions = [...text.matchAll(/is defined at \S*-v(\d+)\.py:(\d+)/g)];
  // the innermost frame comes last
  for (const [, of, line] of [...frames.reverse(), ...definitions]) {
    const found = Number(of) === version ? placeOf(Number(line), lines) : null;
    if (found !== null) return found;
  }
  return null;
}

function placeOf(line: number, lines: readonly ProgramLines[]): FailedAt | null {
  const found = lines.find(({ first, last }) => first <= line && line <= last);
  if (found === undefined || found.node === null) return null;
  return { node: found.node, line: found.code_line === null ? null : found.code_line + line - found.first };
}

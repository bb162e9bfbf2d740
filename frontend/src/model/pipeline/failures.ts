/** Where in a drawn pipeline a failure happened, and which of its nodes are in trouble. Pure. */

import type { JobException, LiveJob, ProgramLines } from '../../gen/contract';

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

export interface Trouble {
  /** Number of the latest failures that were at the node. */
  readonly failures: number;
  /** Number of calls of its code that do not return. */
  readonly stalls: number;
}

/**
 * What fails and what hangs, by node; counted again only when there is another exception or stall.
 *
 * `version` is that of the program, `lines` say which of its lines belong to which node.
 */
export function troubleReader(
  version: number,
  lines: readonly ProgramLines[],
): (moving: Pick<LiveJob['moving'], 'exceptions' | 'stalls'>) => ReadonlyMap<string, Trouble> {
  let last: { exceptions: unknown; stalls: unknown; found: ReadonlyMap<string, Trouble> } | null = null;
  return ({ exceptions, stalls }) => {
    if (last?.exceptions === exceptions && last.stalls === stalls) return last.found;
    const found = new Map<string, Trouble>();
    const count = (at: ReturnType<typeof failedAt>, name: keyof Trouble) => {
      if (at === null) return;
      const known = found.get(at.node) ?? { failures: 0, stalls: 0 };
      found.set(at.node, { ...known, [name]: known[name] + 1 });
    };
    for (const exception of Object.values(exceptions)) count(failedAt(exception, version, lines), 'failures');
    for (const { stack } of Object.values(stalls)) {
      count(failedAt({ stacktrace: stack, message: '' }, version, lines), 'stalls');
    }
    last = { exceptions, stalls, found };
    return found;
  };
}

/** Deployments as people see them: phases, what came of them, and what becomes of each node's state. Pure. */

import type { DeploymentAnswer, OperatorVerdict, Report, StateVerdict } from '../../gen/contract';
import { isTerminal } from '../states';
import type { JobState } from '../../gen/contract';
import { t } from '../../texts/t';
import type { PipelineDocument } from './document';
import { topologicalOrder } from './order';

const ENDED: ReadonlySet<string> = new Set(['RUNNING', 'ROLLED_BACK', 'FAILED']);
/** Before them the new job does not exist: the job of such a deployment is not its own. */
const BEFORE_JOB: ReadonlySet<string> = new Set(['COMPILED', 'CHECKED', 'STOPPING']);

export function isUnderWay({ state }: Pick<DeploymentAnswer, 'state'>): boolean {
  return !ENDED.has(state);
}

/** The deployment whose job has not ended; of those under way, the one that is to be replaced. */
export function runningOf(deployments: readonly DeploymentAnswer[]): DeploymentAnswer | null {
  const runs = ({ state, job_id, job_state }: DeploymentAnswer) =>
    !BEFORE_JOB.has(state) && job_id !== null && job_state !== null && !isTerminal(job_state as JobState);
  return deployments.find(runs) ?? null;
}

export type PhaseState = 'done' | 'now' | 'ahead' | 'failed';

export interface Phase {
  readonly state: string;
  readonly text: string;
  /** Epoch ms at which it was entered; null: it was not. */
  readonly at: number | null;
  readonly is: PhaseState;
}

const TEXTS: Readonly<Record<string, string>> = {
  COMPILED: t('Compiled to a program'),
  CHECKED: t('State checked'),
  STOPPING: t('Running job stops with a savepoint'),
  SUBMITTED: t('New job starts'),
  RUNNING: t('Runs'),
  ROLLING_BACK: t('New job is ended'),
  ROLLED_BACK: t('Old job runs again, from the savepoint'),
  FAILED: t('Failed'),
};
const REPLACEMENT = ['COMPILED', 'CHECKED', 'STOPPING', 'SUBMITTED', 'RUNNING'];
const FIRST = ['SUBMITTED', 'RUNNING'];

/** The phases of a deployment in order, with those that are still ahead if nothing fails. */
export function phasesOf(deployment: DeploymentAnswer): readonly Phase[] {
  const { state, state_times: times, previous } = deployment;
  const way = previous === null && times.COMPILED === undefined ? FIRST : REPLACEMENT;
  const isBack = state === 'ROLLING_BACK' || state === 'ROLLED_BACK' || times.ROLLING_BACK !== undefined;
  const entered = way.filter((each) => times[each] !== undefined && !(isBack && each === 'RUNNING'));
  const back = isBack ? ['ROLLING_BACK', ...(state === 'FAILED' ? [] : ['ROLLED_BACK'])] : [];
  const ahead = isBack || state === 'FAILED' ? [] : way.filter((each) => times[each] === undefined);
  const states = [...entered, ...back, ...(state === 'FAILED' ? ['FAILED'] : []), ...ahead];
  return states.map((each) => ({
    state: each,
    text: TEXTS[each] ?? each,
    at: times[each] ?? null,
    is: isOf(each, state, times[each]),
  }));
}

function isOf(phase: string, state: string, at: number | undefined): PhaseState {
  if (phase === 'FAILED') return 'failed';
  if (phase === state) return ENDED.has(state) ? 'done' : 'now';
  return at === undefined ? 'ahead' : 'done';
}

/** One sentence about how a deployment ended, or what it does. */
export function outcomeOf({ state, version, previous }: DeploymentAnswer, old: number | null): string {
  const before = old === null ? t('the job from before') : t('version {old}', { old });
  switch (state) {
    case 'RUNNING':
      return previous === null
        ? t('Version {version} runs.', { version })
        : t('Version {version} runs in place of {before}.', { version, before });
    case 'ROLLED_BACK':
      return t('Version {version} did not run. The deployment was rolled back: {before} goes on from its savepoint.', {
        version,
        before,
      });
    case 'ROLLING_BACK':
      return t('Version {version} failed. It is rolled back to {before}.', { version, before });
    case 'FAILED':
      return t('Version {version} was not deployed.', { version });
    default:
      return t('Version {version} is being deployed.', { version });
  }
}

export type NodeVerdict = 'refused' | 'lost' | 'new' | 'unknown' | 'rescaled' | 'kept' | 'none';

export interface NodeState {
  /** A node, or, for what the version does not have any more, an operator. */
  readonly id: string;
  readonly name: string;
  readonly isSource: boolean;
  readonly verdict: NodeVerdict;
  readonly why: string;
  readonly before: number | null;
  readonly after: number | null;
  readonly size_bytes: number;
  /** Its named states that are not simply kept. */
  readonly states: readonly string[];
}

const WORST: readonly NodeVerdict[] = ['refused', 'lost', 'new', 'unknown', 'rescaled', 'kept', 'none'];

/**
 * What becomes of each node's state, the worst first. A node may be several operators: the worst of them counts.
 *
 * `nodes` has the node of each operator of the version, `olds` of the one that runs.
 */
export function nodeStates(
  report: Report,
  document: PipelineDocument,
  nodes: Readonly<Record<string, string>>,
  olds: Readonly<Record<string, string>>,
): readonly NodeState[] {
  const byNode = new Map<string, NodeState>();
  for (const line of report.operators) {
    const node = nodes[line.operator_id];
    const id = node ?? olds[line.operator_id] ?? line.operator_id;
    const type = document.nodes[node ?? '']?.type ?? '';
    const verdict = verdictOf(line);
    const made: NodeState = {
      id,
      name: document.nodes[node ?? '']?.name ?? line.name,
      isSource: type.startsWith('source.'),
      verdict,
      why: line.why,
      before: line.before,
      after: line.after,
      size_bytes: line.size_bytes,
      states: (line.states ?? []).filter(({ fate }) => fate !== 'kept' && fate !== 'lost').map(stateText),
    };
    const known = byNode.get(id);
    const worse = known === undefined || WORST.indexOf(verdict) < WORST.indexOf(known.verdict) ? made : known;
    byNode.set(id, {
      ...worse,
      size_bytes: (known?.size_bytes ?? 0) + line.size_bytes,
      states: [...(known?.states ?? []), ...made.states],
    });
  }
  const order = new Map(topologicalOrder(document).map((id, index) => [id, index]));
  const place = ({ id, verdict }: NodeState) => WORST.indexOf(verdict) * 1e6 + (order.get(id) ?? 1e5);
  return [...byNode.values()].sort((one, other) => place(one) - place(other));
}

function verdictOf({ verdict, has_state }: OperatorVerdict): NodeVerdict {
  if ((verdict === 'kept' || verdict === 'rescaled' || verdict === 'unknown') && !has_state) return 'none';
  return verdict;
}

function stateText({ name, fate, written, expected }: StateVerdict): string {
  switch (fate) {
    case 'empty':
      return t('{name} ({expected}) starts empty', { name, expected: expected ?? '' });
    case 'unread':
      return t('{name} ({written}) is not asked for, and stays in snapshots', { name, written: written ?? '' });
    case 'refused':
      return `${name}: ${written ?? ''} → ${expected ?? t('not asked for')}`;
    default:
      return `${name} (${written ?? ''})`;
  }
}

/** What a verdict means for this node, in a few words. */
export function verdictText({ verdict, isSource, before, after }: NodeState): string {
  switch (verdict) {
    case 'kept':
      return isSource ? t('goes on at its position') : 'kept';
    case 'rescaled':
      return t('{kept}, rescaled {before} → {after}', {
        kept: isSource ? t('goes on at its position') : t('kept'),
        before: before ?? '?',
        after: after ?? '?',
      });
    case 'new':
      return isSource ? t('new: begins at its start') : t('new: starts empty');
    case 'lost':
      return after === null ? t('lost: the version does not have it') : t('lost: the node keeps other state now');
    case 'refused':
      return t('cannot be read');
    case 'unknown':
      return t('kept; whether it can be read shows when it runs');
    case 'none':
      return t('has no state');
  }
}

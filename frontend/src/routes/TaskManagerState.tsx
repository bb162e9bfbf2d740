/** A TaskManager's state in the style of job states. */

import { StateBadge } from '../components/StateBadge/StateBadge';
import type { TaskManagerSummary } from '../gen/contract';

const LOOKS = { REGISTERED: 'RUNNING', DRAINING: 'CANCELLING', LOST: 'FAILED', GONE: 'CANCELED' } as const;

export function TaskManagerState({ state }: Pick<TaskManagerSummary, 'state'>) {
  return <StateBadge state={LOOKS[state]} text={state} />;
}

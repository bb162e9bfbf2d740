/** What the user has chosen for the charts of a job. */

import { useSyncExternalStore } from 'react';

import { type ChartChoice, chartChoice, chooseCharts, subscribeChartChoices } from '../store/chartChoices';
import { useSession } from './useSession';

export function useChartChoice(jobId: string): readonly [ChartChoice, (change: Partial<ChartChoice>) => void] {
  const user = useSession().data?.user.name ?? '';
  const choice = useSyncExternalStore(subscribeChartChoices, () => chartChoice(user, jobId));
  return [choice, (change) => chooseCharts(user, jobId, change)];
}

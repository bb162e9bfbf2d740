/** The states that jobs are in, with their number; a click shows those only. In the URL: `state=RUNNING,FAILED`. */

import type { JobState } from '../../gen/contract';
import { useQueryParam } from '../../hooks/useQueryParam';
import { type StateCount, parseStates } from '../../model/jobList';
import { t } from '../../texts/t';
import { StateBadge } from '../StateBadge/StateBadge';
import classes from './StateFilter.module.css';

/** The chosen states; empty: all. */
export function useStateFilter(): [readonly JobState[], (states: readonly JobState[]) => void] {
  const [text, setText] = useQueryParam('state');
  return [parseStates(text), (states) => setText(states.length === 0 ? null : states.join(','))];
}

export function StateFilter({ counts }: { readonly counts: readonly StateCount[] }) {
  const [chosen, setChosen] = useStateFilter();
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  const toggle = (state: JobState) =>
    setChosen(chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state]);
  return (
    <div className={classes.states} role="group" aria-label={t('Filter by state')}>
      <button type="button" className={classes.state} aria-pressed={chosen.length === 0} onClick={() => setChosen([])}>
        <span>{total}</span> {t('All')}
      </button>
      {counts.map(({ state, count }) => (
        <button
          key={state}
          type="button"
          className={classes.state}
          aria-pressed={chosen.includes(state)}
          onClick={() => toggle(state)}
        >
          <StateBadge state={state} count={count} plain />
        </button>
      ))}
    </div>
  );
}

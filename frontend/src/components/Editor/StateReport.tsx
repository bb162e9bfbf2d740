/** What a new version makes of the state of the job that runs: a line for each node, the worst first. */

import {
  type Icon,
  IconAlertTriangle,
  IconArrowsDiagonal,
  IconCheck,
  IconHelpCircle,
  IconMinus,
  IconPlus,
  IconTrash,
} from '@tabler/icons-react';

import { formatBytes } from '../../model/format';
import { type NodeState, type NodeVerdict, verdictText } from '../../model/pipeline/deployment';
import { t } from '../../texts/t';
import classes from './Deploy.module.css';

const ICONS: Record<NodeVerdict, Icon> = {
  refused: IconAlertTriangle,
  lost: IconTrash,
  new: IconPlus,
  unknown: IconHelpCircle,
  rescaled: IconArrowsDiagonal,
  kept: IconCheck,
  none: IconMinus,
};

export function StateReport({ states }: { readonly states: readonly NodeState[] }) {
  return (
    <div className={classes.report} tabIndex={0} role="group" aria-label={t('What happens to the state')}>
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('State of each node')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Node')}</th>
            <th scope="col">{t('State')}</th>
            <th scope="col" className="tm-num">
              {t('Size')}
            </th>
          </tr>
        </thead>
        <tbody>
          {states.map((state) => (
            <tr key={state.id}>
              <td className={classes.nodeName}>{state.name}</td>
              <td>
                <Verdict state={state} />
                {state.states.map((text) => (
                  <span key={text} className={classes.reason}>
                    {text}
                  </span>
                ))}
                {state.why !== '' && <span className={classes.reason}>{state.why}</span>}
              </td>
              <td className="tm-num">{state.size_bytes === 0 ? '–' : formatBytes(state.size_bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Verdict({ state }: { readonly state: NodeState }) {
  const VerdictIcon = ICONS[state.verdict];
  return (
    <span className={classes.verdict} data-verdict={state.verdict}>
      <VerdictIcon size={15} aria-hidden />
      {verdictText(state)}
    </span>
  );
}

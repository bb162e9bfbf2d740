/** A job's autoscaler: its switch, what it wants at present and why, and what it has decided. */

import { Switch, Tooltip } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery } from '@tanstack/react-query';

import { fetchAutoscaler, switchAutoscaler } from '../../api/jobs';
import { useJob, useJobPart, useVertices } from '../../hooks/useJob';
import { useRole } from '../../hooks/useSession';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { mayOperate } from '../../model/access';
import { wantedOf } from '../../model/autoscaler';
import { isTerminal } from '../../model/states';
import { t } from '../../texts/t';
import { Panel } from '../Panel/Panel';
import classes from './Autoscaler.module.css';
import { Decisions } from './Decisions';

export function Autoscaler() {
  const job = useJob();
  const vertices = useVertices();
  const autoscaler = useJobPart(({ moving }) => moving.autoscaler);
  const { enabled = false, reason = '', last_decision: last = null } = autoscaler ?? {};
  const isEnded = isTerminal(job.state);
  // read again after each decision, and once what it has cost may be known
  const { data } = useQuery({
    queryKey: ['autoscaler', job.id, last, job.attempt, job.state],
    queryFn: () => fetchAutoscaler(job.id),
    placeholderData: (before) => before,
    refetchInterval: ({ state }) => (state.data?.decisions[0]?.cost_ms === null && !isEnded ? 5_000 : false),
  });
  const decisions = data?.decisions ?? [];
  // a job of an earlier version, or one that has ended without ever being rescaled by it
  if (autoscaler === undefined || (isEnded && decisions.length === 0)) return null;
  const wanted = wantedOf(autoscaler, vertices);
  return (
    <Panel title={t('Autoscaler')} flush actions={!isEnded && <OnOff jobId={job.id} isOn={enabled} />}>
      {!isEnded && (
        <p className={classes.reason}>
          {enabled
            ? `${reason === '' ? t('It begins') : sentence(reason)}.`
            : t('Off: the parallelism stays as it is.')}
        </p>
      )}
      {wanted.length > 0 && (
        <div className="tm-table-scroll" tabIndex={0}>
          <table className={`tm-table ${classes.table ?? ''}`}>
            <caption className="tm-visually-hidden">{t('What the autoscaler wants')}</caption>
            <thead>
              <tr>
                <th scope="col">{t('Vertex')}</th>
                <th scope="col" className="tm-num">
                  {t('Parallelism')}
                </th>
                <th scope="col" className="tm-num">
                  {t('Wanted')}
                </th>
                <th scope="col">{t('Reason')}</th>
              </tr>
            </thead>
            <tbody>
              {wanted.map((vertex) => (
                <tr key={vertex.id}>
                  <td className={classes.name} title={vertex.name}>
                    {vertex.name}
                  </td>
                  <td className="tm-num">{vertex.parallelism}</td>
                  <td className="tm-num" data-changed={vertex.wanted !== vertex.parallelism || undefined}>
                    {vertex.wanted}
                  </td>
                  <td className={classes.why}>{vertex.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {decisions.length > 0 && <Decisions decisions={decisions} />}
    </Panel>
  );
}

function OnOff({ jobId, isOn }: { readonly jobId: string; readonly isOn: boolean }) {
  const isAllowed = mayOperate(useRole());
  const { mutate, isPending } = useMutation({
    mutationFn: (enabled: boolean) => switchAutoscaler(jobId, enabled),
    onError: (problem) => {
      const title = t('The autoscaler was not switched');
      notifications.show({ id: title, color: 'red', autoClose: false, title, message: problem.message });
    },
  });
  const change = useSingleFlight(mutate);
  return (
    <Tooltip label={t('Requires the role operator')} disabled={isAllowed}>
      <Switch
        aria-label={t('Autoscaler')}
        label={isOn ? t('On') : t('Off')}
        labelPosition="left"
        checked={isOn}
        disabled={!isAllowed || isPending}
        onChange={(event) => change(event.currentTarget.checked)}
      />
    </Tooltip>
  );
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

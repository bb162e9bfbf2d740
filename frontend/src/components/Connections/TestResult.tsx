/** What the last test of a connection said, as icon and text. */

import { IconAlertTriangle, IconCircleCheck, IconCircleDashed } from '@tabler/icons-react';

import type { Connection } from '../../api/connections';
import { useTimes } from '../../hooks/useTimes';
import { t } from '../../texts/t';
import classes from './Connections.module.css';

export function TestResult({ connection }: { readonly connection: Connection }) {
  const times = useTimes();
  const { test, tested_at } = connection;
  if (test === null) {
    return (
      <span className={classes.result}>
        <IconCircleDashed size={15} aria-hidden /> {t('not tested')}
      </span>
    );
  }
  return (
    <span className={classes.result} data-ok={test.ok} title={tested_at === null ? '' : times.dateTime(tested_at)}>
      {test.ok ? <IconCircleCheck size={15} aria-hidden /> : <IconAlertTriangle size={15} aria-hidden />}
      <span className="tm-break">
        {test.ok ? t('answers') : t('does not answer')}
        {test.message !== '' && `: ${test.message}`}
      </span>
    </span>
  );
}

/** Warnings and output of a program while it was planned or started. */

import { IconAlertTriangle } from '@tabler/icons-react';

import { t } from '../../texts/t';
import classes from './ProgramNotes.module.css';

export interface ProgramSaid {
  readonly warnings?: readonly string[];
  readonly output?: string;
}

export function ProgramNotes({ said: { warnings = [], output = '' } }: { readonly said: ProgramSaid }) {
  if (warnings.length === 0 && output === '') return null;
  return (
    <div className={classes.notes}>
      {warnings.map((warning) => (
        <p key={warning} className={classes.warning}>
          <IconAlertTriangle size={16} aria-hidden /> <span>{warning}</span>
        </p>
      ))}
      {output !== '' && (
        <pre className={classes.output} tabIndex={0} aria-label={t('Printed by the program')}>
          {output}
        </pre>
      )}
    </div>
  );
}

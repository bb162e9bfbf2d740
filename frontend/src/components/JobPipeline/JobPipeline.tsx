/** On the page of a job that was drawn: the way to its version, and from a failure to the node and its line. */

import { IconSchema } from '@tabler/icons-react';
import { Link } from 'react-router';

import type { JobException, JobPipeline } from '../../gen/contract';
import { type JobProgram, useJobPipeline } from '../../hooks/useJobPipeline';
import { failedAt } from '../../model/pipeline/failures';
import { nameOf } from '../../model/pipeline/document';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import classes from './JobPipeline.module.css';

export function PipelineLink({ jobId }: { readonly jobId: string }) {
  const drawn = useJobPipeline(jobId);
  if (drawn === null) return null;
  return (
    <Link className={classes.drawn} to={`/pipelines/${drawn.pipeline}/edit?version=${drawn.version}`}>
      <IconSchema size={15} aria-hidden />
      {rich('{name} version {version}', {
        name: <span className={classes.name}>{drawn.name}</span>,
        version: drawn.version,
      })}
    </Link>
  );
}

interface Props {
  readonly exception: JobException;
  readonly drawn: JobPipeline;
  readonly program: JobProgram;
}

/** Opens the node at which the job failed in the editor; nothing if it was at none. */
export function FailedNode({ exception, drawn, program }: Props) {
  const found = failedAt(exception, drawn.version, program.lines);
  if (found === null) return null;
  const query = new URLSearchParams({ node: found.node, ...(found.line === null ? {} : { line: String(found.line) }) });
  return (
    <Link className="tm-link" to={`/pipelines/${drawn.pipeline}/edit?${query.toString()}`}>
      {found.line === null
        ? t('Open {name}', { name: nameOf(program.document, found.node) })
        : t('Open {name}, line {line}', { name: nameOf(program.document, found.node), line: found.line })}
    </Link>
  );
}

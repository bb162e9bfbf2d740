/** The picture of a job: the graph of its vertices or, if it was drawn, the pipeline as it was drawn. */

import { SegmentedControl, Skeleton } from '@mantine/core';
import { Suspense, lazy } from 'react';

import { useJobId } from '../../hooks/useJob';
import { useJobPipeline } from '../../hooks/useJobPipeline';
import { useQueryParam } from '../../hooks/useQueryParam';
import { t } from '../../texts/t';
import { JobGraph } from '../JobGraph/JobGraph';
import { Panel } from '../Panel/Panel';

// not needed for the first look at a job
const DrawnJob = lazy(async () => ({ default: (await import('./DrawnJob')).DrawnJob }));

const GRAPH = 'graph';
const PIPELINE = 'pipeline';
const PICTURES = [
  { value: GRAPH, label: t('Vertices') },
  { value: PIPELINE, label: t('Pipeline') },
];

interface Props {
  /** Id of a vertex. */
  readonly selected: string | null;
  readonly onSelect: (vertex: string) => void;
  /** Width covered at the right of the window, in px. */
  readonly coveredRight: number;
}

export function JobPicture(props: Props) {
  const drawn = useJobPipeline(useJobId());
  const [picture, setPicture] = useQueryParam('picture');
  const graph = <JobGraph {...props} />;
  if (drawn === null) {
    return (
      <Panel flush label={t('Job graph')}>
        {graph}
      </Panel>
    );
  }
  const isDrawn = picture === PIPELINE;
  return (
    <Panel
      flush
      title={t('Job graph')}
      actions={
        <SegmentedControl
          size="xs"
          aria-label={t('Picture of the job')}
          data={PICTURES}
          value={isDrawn ? PIPELINE : GRAPH}
          onChange={(value) => setPicture(value === PIPELINE ? PIPELINE : null)}
        />
      }
    >
      {isDrawn ? (
        <Suspense fallback={<Skeleton height={320} />}>
          <DrawnJob {...props} drawn={drawn} />
        </Suspense>
      ) : (
        graph
      )}
    </Panel>
  );
}

/** The dock's plan: the job graph that the draft would run as, with its chains and parallelism. */

import { useQuery } from '@tanstack/react-query';
import { ReactFlowProvider } from '@xyflow/react';
import { useMemo } from 'react';

import { fetchDraftPlan } from '../../api/pipelines';
import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type PipelineDocument, nameOf } from '../../model/pipeline/document';
import { planLines } from '../../model/plan';
import { documentOf } from '../../store/editor';
import { t } from '../../texts/t';
import { PlanGraph } from '../PlanGraph/PlanGraph';
import classes from './PlanPanel.module.css';

export function PlanPanel() {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  // what changes nothing of the job is left out
  const key = useMemo(
    () => JSON.stringify({ ...document, layout: {}, description: [], samples: {}, tests: [] }),
    [document],
  );
  const { data, error, isFetching } = useQuery({
    queryKey: ['draft-plan', key],
    queryFn: ({ signal }) => fetchDraftPlan(JSON.parse(key) as PipelineDocument, signal),
    placeholderData: (before) => before,
    gcTime: 30_000,
    retry: false,
  });
  if (error !== null) {
    return (
      <p role="alert" className={classes.failure}>
        {error.message}
      </p>
    );
  }
  if (data === undefined) return <p className={classes.none}>{t('Planning…')}</p>;
  const blocking = data.problems.filter(({ severity }) => severity === 'error' || severity === 'incomplete');
  return (
    <div className={classes.panel} aria-busy={isFetching}>
      {data.message !== '' && (
        <p role="alert" className={classes.failure}>
          {data.message}
        </p>
      )}
      {blocking.length > 0 && (
        <ul className={classes.problems} aria-label={t('Left out of the plan')}>
          {blocking.map(({ id, node, field, message }) => (
            <li key={id}>
              {node === null ? (
                <strong>{t('Pipeline')}</strong>
              ) : (
                <button type="button" className={classes.jump} onClick={() => store.getState().jumpTo(node, field)}>
                  {nameOf(document, node)}
                </button>
              )}{' '}
              {message}
            </li>
          ))}
        </ul>
      )}
      {data.warnings.map((warning) => (
        <p key={warning} className={classes.none}>
          {warning}
        </p>
      ))}
      {data.plan !== null && (
        <div className={classes.both}>
          <ul className={classes.vertices} aria-label={t('Vertices')}>
            {[...data.plan.nodes].reverse().map((vertex) => (
              <li key={vertex.id}>
                <button
                  type="button"
                  className={classes.vertex}
                  title={t('Select the nodes that run in this chain')}
                  onClick={() => store.getState().select({ nodes: data.nodes[vertex.id] ?? [] })}
                >
                  <span className={classes.chain}>{planLines(vertex.description).join(' → ')}</span>
                  <span className={classes.parallelism}>×{vertex.parallelism}</span>
                </button>
              </li>
            ))}
          </ul>
          <div className={classes.graph}>
            {/* its own: the editor's canvas has another one around */}
            <ReactFlowProvider>
              <PlanGraph plan={data.plan} />
            </ReactFlowProvider>
          </div>
        </div>
      )}
    </div>
  );
}

/** An edge on the canvas: what flows there is said when the pointer is on it or it is selected. */

import { IconPlus, IconRefresh } from '@tabler/icons-react';
import { BaseEdge, EdgeLabelRenderer, type EdgeProps, getBezierPath } from '@xyflow/react';
import { memo } from 'react';
import { useShallow } from 'zustand/react/shallow';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { useRowsAt } from '../../hooks/usePreview';
import { type EditorState, documentOf, factsOf } from '../../store/editor';
import { t } from '../../texts/t';
import classes from './Canvas.module.css';
import { EdgeRows } from './PreviewBadge';

const SHOWN_COLUMNS = 6;

export const StreamEdge = memo(function StreamEdge(props: EdgeProps) {
  const { id, selected, data } = props;
  const store = useEditorStore();
  const { facts, isReadOnly, from } = useEditor(
    useShallow((state) => ({
      facts: edgeFacts(state, id),
      isReadOnly: state.isReadOnly,
      from: documentOf(state).edges[id]?.from,
    })),
  );
  const [path, x, y] = getBezierPath(props);
  const isNear = selected === true || data?.isNear === true;
  const columns = facts?.columns ?? [];
  const more = columns.length - SHOWN_COLUMNS;
  const hasRows = useRowsAt(from) !== null;
  const line = (
    <BaseEdge
      path={path}
      interactionWidth={24}
      className={`${classes.edge ?? ''} ${facts === null ? (classes.unknown ?? '') : ''}`}
    />
  );
  if (!isNear && !hasRows && facts?.changelog !== 'retract') return line;
  return (
    <>
      {line}
      <EdgeLabelRenderer>
        <div
          className={classes.edgeMiddle}
          style={{ transform: `translate(-50%, -50%) translate(${x}px, ${y}px)` }}
          data-near={isNear || undefined}
        >
          {facts?.changelog === 'retract' && (
            <span className={classes.mark} title={t('A changelog: rows can take earlier ones back')}>
              <IconRefresh size={11} stroke={2.4} aria-hidden /> {t('takes back')}
            </span>
          )}
          <EdgeRows edge={id} place={from} />
          {isNear && (
            <div className={classes.edgeNear}>
              {!isReadOnly && (
                <button
                  type="button"
                  className={classes.insert}
                  tabIndex={-1}
                  title={t('Insert a node here')}
                  aria-label={t('Insert a node here')}
                  onClick={(event) => {
                    event.stopPropagation();
                    store.getState().openQuickAdd({ screen: { x: event.clientX, y: event.clientY }, edge: id });
                  }}
                >
                  <IconPlus size={13} stroke={2.4} aria-hidden />
                </button>
              )}
              {facts !== null && (
                <span className={classes.edgeLabel}>
                  {facts.columns === null
                    ? t('Python objects')
                    : columns
                        .slice(0, SHOWN_COLUMNS)
                        .map(({ name }) => name)
                        .join(', ')}
                  {more > 0 && `, +${more}`}
                  {facts.watermarks && <span title={t('Has event time and watermarks')}> {t('· watermarks')}</span>}
                </span>
              )}
            </div>
          )}
        </div>
      </EdgeLabelRenderer>
    </>
  );
});

function edgeFacts(state: EditorState, id: string) {
  const edge = documentOf(state).edges[id];
  return edge === undefined ? null : factsOf(state, edge.from);
}

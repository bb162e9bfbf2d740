/** What a preview has counted, on nodes and edges of the canvas. */

import { IconAlertTriangleFilled, IconPinFilled } from '@tabler/icons-react';

import { useEditorStore } from '../../hooks/useEditor';
import { useIsStale, usePreview, useRowsAt } from '../../hooks/usePreview';
import { formatCompact } from '../../model/format';
import { type Place, rowsOfNode } from '../../model/pipeline/preview';
import { plural, t } from '../../texts/t';
import classes from './PreviewBadge.module.css';

export function PreviewBadge({ id }: { readonly id: string }) {
  const rows = usePreview(({ shown }) => rowsOfNode(shown, id));
  const hasFailed = usePreview(({ shown }) => shown?.state === 'failed' && shown.end?.node === id);
  const isStale = useIsStale(id);
  return (
    <>
      {hasFailed && (
        <span className={classes.failed} title={t('The preview failed here')}>
          <IconAlertTriangleFilled size={13} aria-hidden />
          <span className="tm-visually-hidden">{t('The preview failed here')}</span>
        </span>
      )}
      {rows !== null && <Rows rows={rows} isStale={isStale} />}
    </>
  );
}

export function PinBadge() {
  return (
    <span className={classes.pin} title={t('Previews use its pinned rows')}>
      <IconPinFilled size={12} aria-hidden />
      <span className="tm-visually-hidden">{t('Pinned rows')}</span>
    </span>
  );
}

export function EdgeRows({ edge, place }: { readonly edge: string; readonly place: Place | undefined }) {
  const store = useEditorStore();
  const rows = useRowsAt(place);
  const isStale = useIsStale(place?.[0] ?? '');
  if (rows === null) return null;
  return (
    <button
      type="button"
      className={classes.edge}
      tabIndex={-1}
      onClick={(event) => {
        event.stopPropagation();
        store.getState().select({ edges: [edge] });
      }}
    >
      <Rows rows={rows} isStale={isStale} />
    </button>
  );
}

function Rows({ rows, isStale }: { readonly rows: number; readonly isStale: boolean }) {
  return (
    <span
      className={classes.rows}
      data-stale={isStale || undefined}
      title={
        isStale
          ? plural(
              rows,
              '1 row in the preview, of an earlier draft',
              '{count} rows in the preview, of an earlier draft',
            )
          : plural(rows, '1 row in the preview', '{count} rows in the preview')
      }
    >
      {formatCompact(rows)}
      <span className="tm-visually-hidden"> {rows === 1 ? t('row in the preview') : t('rows in the preview')}</span>
    </span>
  );
}

/** The edges of a vertex: what goes over each, and what waits on it. */

import { Button } from '@mantine/core';
import { Link, useSearchParams } from 'react-router';

import { useJobPart, useVertices } from '../../hooks/useJob';
import { useTimes } from '../../hooks/useTimes';
import { NOTHING, formatByteRate, formatBytes, formatCount, formatRate } from '../../model/format';
import { type GraphEdge, topologyOfVertices } from '../../model/graph';
import { metricsOfEdge } from '../../model/job';
import { t } from '../../texts/t';
import { peekSearch } from '../PeekLink/PeekLink';
import classes from './VertexDrawer.module.css';

export function EdgesTab({ vertexId }: { readonly vertexId: string }) {
  const vertices = useVertices();
  const { edges } = topologyOfVertices(vertices);
  const names = new Map(vertices.map(({ id, name }) => [id, name]));
  const inputs = edges.filter(({ target }) => target === vertexId);
  const outputs = edges.filter(({ source }) => source === vertexId);
  if (inputs.length + outputs.length === 0) return <p className={classes.note}>{t('This vertex has no edges.')}</p>;
  return (
    <>
      <p className={classes.note}>
        {t(
          'What waits on an edge is queued at both of its ends. A record that is broadcast counts once for each consumer.',
        )}
      </p>
      <div className="tm-table-scroll" tabIndex={0}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Edges')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Edge')}</th>
              <th scope="col">{t('Ship Strategy')}</th>
              <th scope="col" className="tm-num">
                {t('Records Sent')}
              </th>
              <th scope="col" className="tm-num">
                {t('Records Received')}
              </th>
              <th scope="col" className="tm-num">
                {t('Queued')}
              </th>
              <th scope="col">{t('Watermark')}</th>
              <th scope="col">
                <span className="tm-visually-hidden">{t('Peek')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {inputs.map((edge) => (
              <Row
                key={edge.id}
                vertexId={vertexId}
                edge={edge}
                label={t('from {source}', { source: names.get(edge.source) ?? edge.source })}
              />
            ))}
            {outputs.map((edge) => (
              <Row
                key={edge.id}
                vertexId={vertexId}
                edge={edge}
                label={t('to {target}', { target: names.get(edge.target) ?? edge.target })}
              />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

interface RowProps {
  readonly vertexId: string;
  readonly edge: GraphEdge;
  readonly label: string;
}

function Row({ vertexId, edge, label }: RowProps) {
  const times = useTimes();
  const metrics = useJobPart((job) => metricsOfEdge(job, edge.edge));
  return (
    <tr>
      <td className={classes.edge} title={label}>
        {label}
      </td>
      <td>{edge.shipStrategy}</td>
      <td className="tm-num">
        {formatCount(metrics?.records_sent)}
        <div className="tm-live tm-dim">
          {formatRate(metrics?.records_per_second)} · {formatByteRate(metrics?.bytes_per_second)}
        </div>
      </td>
      <td className="tm-num">{formatCount(metrics?.records_received)}</td>
      <td className="tm-num tm-live">
        {metrics === undefined ? (
          NOTHING
        ) : (
          <>
            {formatBytes(metrics.queued_bytes)}
            <div className="tm-dim">
              {t('{queuedBuffers} buffers', { queuedBuffers: formatCount(metrics.queued_buffers) })}
            </div>
          </>
        )}
      </td>
      <td>{metrics === undefined ? NOTHING : times.watermark(metrics.watermark)}</td>
      <td>{edge.edge !== undefined && <PeekButton vertexId={vertexId} edge={edge.edge} label={label} />}</td>
    </tr>
  );
}

interface PeekButtonProps {
  readonly vertexId: string;
  readonly edge: string;
  readonly label: string;
}

function PeekButton({ vertexId, edge, label }: PeekButtonProps) {
  const [params] = useSearchParams();
  const to = peekSearch(params, { vertex: vertexId, key: edge });
  return (
    <Button
      size="compact-xs"
      variant="default"
      aria-label={t('Peek at the edge {label}', { label })}
      component={Link}
      to={to}
    >
      {t('Peek')}
    </Button>
  );
}

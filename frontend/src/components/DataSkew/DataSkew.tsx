/** How unevenly the records of vertices are spread over their subtasks: the worst first. */

import { useJobPart, useVertex } from '../../hooks/useJob';
import { NOTHING } from '../../model/format';
import { type Spread, type VertexSkew, cvText, ratioText, skewsOf } from '../../model/skew';
import { t } from '../../texts/t';
import { Panel } from '../Panel/Panel';
import { VertexLink } from '../VertexLink/VertexLink';

interface Props {
  readonly onSelect: (id: string) => void;
}

export function DataSkew({ onSelect }: Props) {
  const skews = skewsOf(useJobPart(({ derived }) => derived.skew));
  // vertices of one subtask have none
  if (skews.length === 0) return null;
  return (
    <Panel flush title={t('Data Skew')}>
      <div className="tm-table-scroll" tabIndex={0} role="region" aria-label={t('Data skew of the vertices')}>
        <table className="tm-table">
          <caption className="tm-visually-hidden">{t('Data skew of the vertices')}</caption>
          <thead>
            <tr>
              <th scope="col">{t('Name')}</th>
              <Heads of={t('Since Start')} />
              <Heads of={t('Now')} />
            </tr>
          </thead>
          <tbody>
            {skews.map((skew) => (
              <Row key={skew.vertex} skew={skew} onSelect={onSelect} />
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Heads({ of }: { readonly of: string }) {
  return (
    <>
      <th scope="col" className="tm-num" title={t('Coefficient of variation: standard deviation / average')}>
        {t('{of}: CV', { of })}
      </th>
      <th scope="col" className="tm-num" title={t('Records of the subtask that gets most / average')}>
        {t('Max / Average')}
      </th>
      <th scope="col" className="tm-num" title={t('The one that gets most')}>
        {t('Subtask')}
      </th>
    </>
  );
}

function Row({ skew, onSelect }: Props & { readonly skew: VertexSkew }) {
  const name = useVertex(skew.vertex)?.name ?? skew.vertex;
  return (
    <tr>
      <td>
        <VertexLink id={skew.vertex} name={name} onSelect={onSelect} />
      </td>
      <Cells spread={skew.total} />
      <Cells spread={skew.live} />
    </tr>
  );
}

function Cells({ spread }: { readonly spread: Spread | null }) {
  return (
    <>
      <td className="tm-num tm-live">{spread === null ? NOTHING : cvText(spread)}</td>
      <td className="tm-num tm-live">{spread === null ? NOTHING : ratioText(spread)}</td>
      <td className="tm-num tm-live">{spread === null ? NOTHING : spread.subtask}</td>
    </>
  );
}

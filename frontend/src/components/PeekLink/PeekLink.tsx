/** Leads from an edge in a picture of a job to the rows that pass it. */

import { IconEye } from '@tabler/icons-react';
import { memo } from 'react';
import { Link, useSearchParams } from 'react-router';

import type { PeekPlace } from '../../model/peek';
import { t } from '../../texts/t';
import classes from './PeekLink.module.css';

interface Props {
  /** Id of the vertex whose drawer shows them. */
  readonly vertex: string;
  /** As of `PeekableEdge`. */
  readonly edge: string;
  /** The edge in words: "Source → Map". */
  readonly label: string;
}

/** Rendered apart from the figures beside it. */
export const PeekLink = memo(function PeekLink({ vertex, edge, label }: Props) {
  const [params] = useSearchParams();
  const text = t('Peek at {label}', { label });
  return (
    <Link
      className={`nopan ${classes.link ?? ''}`}
      to={peekSearch(params, { vertex, key: edge })}
      title={text}
      aria-label={text}
    >
      <IconEye size={13} aria-hidden />
    </Link>
  );
});

/** The present query with the drawer of the vertex open at the rows of the edge. */
export function peekSearch(params: URLSearchParams, { vertex, key }: PeekPlace): string {
  const next = new URLSearchParams(params);
  next.set('vertex', vertex);
  next.set('vtab', 'peek');
  next.set('peek', key);
  return `?${next}`;
}

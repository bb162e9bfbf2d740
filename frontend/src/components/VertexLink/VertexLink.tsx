/** The name of a vertex, which opens it. */

import { memo } from 'react';

import classes from './VertexLink.module.css';

interface Props {
  readonly id: string;
  readonly name: string;
  /** Whether a name that is too long ends in an ellipsis, with the whole of it as a title; else it breaks. */
  readonly isClipped?: boolean;
  readonly onSelect: (id: string) => void;
}

export const VertexLink = memo(function VertexLink({ id, name, isClipped = false, onSelect }: Props) {
  return (
    <button
      type="button"
      className={classes.link}
      data-clipped={isClipped || undefined}
      title={isClipped ? name : undefined}
      onClick={() => onSelect(id)}
    >
      {name}
    </button>
  );
});

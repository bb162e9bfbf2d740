/** A name, set when the field is left or by Enter; Escape brings the old one back. One that is refused stays with the reason. */

import { TextInput } from '@mantine/core';
import { useState } from 'react';

import classes from './Inspector.module.css';

interface Props {
  readonly label: string;
  readonly value: string;
  readonly isReadOnly: boolean;
  /** Shows the label above the field; else it is for screen readers. */
  readonly isLabelled?: boolean;
  /** JSON pointer of the name, for what jumps to it. */
  readonly field?: string;
  /** Why a name cannot be taken; null: it can. */
  readonly refusal?: (name: string) => string | null;
  readonly onRename: (name: string) => void;
}

export function NameField(props: Props) {
  const { label, value, isReadOnly, isLabelled = false, field, refusal = () => null, onRename } = props;
  const [text, setText] = useState(value);
  const refused = text === value ? null : refusal(text);
  return (
    <TextInput
      {...(isLabelled ? { label } : { 'aria-label': label })}
      data-name-field
      {...(field === undefined ? {} : { 'data-field': field })}
      size="sm"
      variant={isLabelled ? 'default' : 'unstyled'}
      value={text}
      readOnly={isReadOnly}
      error={refused}
      {...(isLabelled ? {} : { classNames: { input: classes.nameInput ?? '' } })}
      onChange={(event) => setText(event.currentTarget.value)}
      onBlur={() => {
        if (text.trim() === '') setText(value);
        else if (text !== value && refused === null) onRename(text);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter') event.currentTarget.blur();
        if (event.key === 'Escape') setText(value);
      }}
    />
  );
}

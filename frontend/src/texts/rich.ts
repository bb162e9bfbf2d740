/** Texts with elements in them, in the order that the user's language needs. */

import { Fragment, type ReactNode, createElement } from 'react';

import { type Values, translated } from './t';

/** The text in the user's language; `{name}` in it stands for an element or a value. */
export function rich<Text extends string>(text: Text, values: Values<Text, ReactNode>): ReactNode {
  const nodes = values as Readonly<Partial<Record<string, ReactNode>>>;
  const parts = translated(text)
    .split(/\{(\w+)\}/)
    .map((part, index) => (index % 2 === 0 ? part : nodes[part]));
  return createElement(Fragment, null, ...parts);
}

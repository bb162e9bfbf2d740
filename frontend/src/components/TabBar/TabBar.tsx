/** The tabs of a page or drawer; if they do not all fit, the selected one is scrolled into view. */

import { Tabs } from '@mantine/core';
import { type ReactNode, useEffect, useRef } from 'react';

interface Props {
  /** Value, label and further content of the tab after the label. */
  readonly tabs: readonly (readonly [string, string, ReactNode?])[];
  readonly value: string | null;
  readonly className?: string | undefined;
}

export function TabBar({ tabs, value, className }: Props) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [value]);
  return (
    <Tabs.List ref={list} {...(className === undefined ? {} : { className })}>
      {tabs.map(([each, label, more]) => (
        <Tabs.Tab key={each} value={each}>
          {label}
          {more}
        </Tabs.Tab>
      ))}
    </Tabs.List>
  );
}

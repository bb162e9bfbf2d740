/** The tabs of a page or a drawer; where they do not all fit, the chosen one is scrolled into sight. */

import { Tabs } from '@mantine/core';
import { type ReactNode, useEffect, useRef } from 'react';

interface Props {
  /** Value, label and, behind the label, what else the tab shows. */
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

/** A part of the page that follows changes only while it is in sight. */

import type { ReactNode } from 'react';

import { SightContext, useSight } from '../../hooks/useSight';

interface Props {
  readonly className?: string | undefined;
  readonly children: ReactNode;
}

export function InSight({ className, children }: Props) {
  const { ref, sight } = useSight();
  return (
    <div ref={ref} className={className}>
      <SightContext value={sight}>{children}</SightContext>
    </div>
  );
}

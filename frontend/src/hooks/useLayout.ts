/** Positions of a graph's nodes, recomputed only when the topology changes. ELK is loaded on first use. */

import { useEffect, useState } from 'react';

import { type Topology, layoutInput, topologyKey } from '../model/graph';

export interface Position {
  readonly x: number;
  readonly y: number;
}

export interface Layout {
  readonly key: string;
  readonly topology: Topology;
  readonly positions: ReadonlyMap<string, Position>;
}

export interface NodeSize {
  readonly width: number;
  readonly height: number;
  readonly edgeGap: number;
}

/** Null until the first layout is ready; then the last one until the next is ready. */
export function useLayout(topology: Topology, size: NodeSize): Layout | null {
  const [layout, setLayout] = useState<Layout | null>(null);
  const key = topologyKey(topology);
  const isCurrent = layout?.key === key;
  useEffect(() => {
    if (isCurrent) return;
    let isWanted = true;
    void compute(topology, size, key).then((result) => {
      if (isWanted) setLayout(result);
    });
    return () => {
      isWanted = false;
    };
    // the key stands for the topology: its object changes with every document
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, isCurrent, size]);
  return layout;
}

async function compute(topology: Topology, size: NodeSize, key: string): Promise<Layout> {
  const { runElk } = await import('./elk');
  const result = await runElk(layoutInput(topology, size.width, size.height, size.edgeGap));
  const positions = new Map((result.children ?? []).map(({ id, x = 0, y = 0 }) => [id, { x, y }]));
  return { key, topology, positions };
}

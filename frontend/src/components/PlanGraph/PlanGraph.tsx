/** The graph that a program would run as, before it runs. */

import { useCallback, useMemo } from 'react';

import type { Plan } from '../../gen/contract';
import { type GraphEdge, topologyOfPlan } from '../../model/graph';
import { planLines } from '../../model/plan';
import { t } from '../../texts/t';
import { GraphCanvas } from '../GraphCanvas/GraphCanvas';
import classes from './PlanGraph.module.css';

const SIZE = { width: 232, height: 96, edgeGap: 112 };

export function PlanGraph({ plan }: { readonly plan: Plan }) {
  const topology = useMemo(() => topologyOfPlan(plan), [plan]);
  const byId = useMemo(() => new Map(plan.nodes.map((node) => [node.id, node])), [plan]);
  const renderNode = useCallback(
    (id: string) => {
      const node = byId.get(id);
      if (node === undefined) return null;
      const [name = 'operator', ...rest] = planLines(node.description);
      return (
        <div
          className={classes.node}
          style={{ width: SIZE.width, height: SIZE.height }}
          title={[name, ...rest].join('\n')}
        >
          <div className={classes.top}>
            <span className={classes.name}>{name}</span>
            <span className={classes.parallelism}>×{node.parallelism}</span>
          </div>
          <div className={classes.rest}>{rest.join(' → ')}</div>
        </div>
      );
    },
    [byId],
  );
  const renderEdge = useCallback((edge: GraphEdge) => <span className={classes.edge}>{edge.shipStrategy}</span>, []);
  return (
    <GraphCanvas topology={topology} size={SIZE} label={t('Plan')} renderNode={renderNode} renderEdge={renderEdge} />
  );
}

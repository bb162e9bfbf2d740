/**
 * A graph with automatic layout, pan and zoom; the caller renders nodes and edges.
 *
 * React Flow gets node objects that change only with the topology, so that moving numbers never touch the layout: the
 * contents get their values through a context.
 */

import '@xyflow/react/dist/style.css';

import { Loader } from '@mantine/core';
import { useElementSize } from '@mantine/hooks';
import {
  Background,
  BaseEdge,
  Controls,
  EdgeLabelRenderer,
  type EdgeProps,
  Handle,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type Viewport,
  type XYPosition,
  getBezierPath,
  useReactFlow,
} from '@xyflow/react';
import { type ReactNode, createContext, useContext, useEffect, useMemo } from 'react';

import { type Layout, type NodeSize, useLayout } from '../../hooks/useLayout';
import type { GraphEdge, Topology } from '../../model/graph';
import classes from './GraphCanvas.module.css';

interface Contents {
  readonly renderNode: (id: string) => ReactNode;
  readonly renderEdge: (edge: GraphEdge) => ReactNode;
  readonly edges: ReadonlyMap<string, GraphEdge>;
  readonly isFlowing: (edge: GraphEdge) => boolean;
}

const ContentsContext = createContext<Contents | null>(null);

interface Props {
  readonly topology: Topology;
  /** Must be constant: a new object triggers a new layout. */
  readonly size: NodeSize;
  readonly label: string;
  readonly renderNode: (id: string) => ReactNode;
  readonly renderEdge: (edge: GraphEdge) => ReactNode;
  readonly isFlowing?: (edge: GraphEdge) => boolean;
  /** For the minimap. */
  readonly nodeColour?: (id: string) => string;
  readonly selected?: string | null;
  /** Width covered at the right of the window, in px: the selected node is moved out of it. */
  readonly coveredRight?: number;
}

const NODE_TYPES = { box: BoxNode };
const EDGE_TYPES = { labelled: LabelledEdge };
const FIT = { padding: 0.06, maxZoom: 1 };
/** Below this zoom, the numbers in the nodes are unreadable. */
const MIN_READABLE_ZOOM = 0.66;
const NEVER = () => false;
const MIN_HEIGHT = 260;
const MAX_HEIGHT = 620;
/** Space above and below the graph for the controls, in px. */
const MARGIN = 60;
const SIDE_MARGIN = 24;
const MINIMAP_HEIGHT = 84;

export function GraphCanvas(props: Props) {
  const {
    topology,
    size,
    label,
    renderNode,
    renderEdge,
    isFlowing = NEVER,
    nodeColour,
    selected = null,
    coveredRight = 0,
  } = props;
  const layout = useLayout(topology, size);
  const { ref, width } = useElementSize();
  const shown = layout?.topology;
  const nodes = useMemo(
    () =>
      (shown?.nodes ?? []).map(({ id }): Node => ({
        id,
        type: 'box',
        position: layout?.positions.get(id) ?? { x: 0, y: 0 },
        data: {},
        width: size.width,
        height: size.height,
        // React Flow turns them off for nodes that can be neither dragged nor selected
        style: { pointerEvents: 'all' },
        measured: { width: size.width, height: size.height },
        handles: [
          { type: 'target', position: Position.Left, x: 0, y: size.height / 2, width: 1, height: 1 },
          { type: 'source', position: Position.Right, x: size.width, y: size.height / 2, width: 1, height: 1 },
        ],
      })),
    [shown, layout, size],
  );
  const edges = useMemo(
    () => (shown?.edges ?? []).map(({ id, source, target }) => ({ id, source, target, type: 'labelled' })),
    [shown],
  );
  const edgesById = useMemo(() => new Map((shown?.edges ?? []).map((edge) => [edge.id, edge])), [shown]);
  const contents = useMemo(
    () => ({ renderNode, renderEdge, edges: edgesById, isFlowing }),
    [renderNode, renderEdge, edgesById, isFlowing],
  );
  const picture = layout === null || width === 0 ? null : pictureOf(layout, size, width);
  return (
    <div
      ref={ref}
      className={classes.canvas}
      style={{ height: picture?.height ?? MIN_HEIGHT }}
      role="group"
      aria-label={label}
    >
      {layout === null || picture === null ? (
        <Loader size="sm" role="status" aria-label="Laying out the graph" className={classes.waiting ?? ''} />
      ) : (
        <ContentsContext value={contents}>
          <ReactFlow
            // fit the view again after a change of topology
            key={layout.key}
            nodes={nodes}
            edges={edges}
            nodeTypes={NODE_TYPES}
            edgeTypes={EDGE_TYPES}
            nodesDraggable={false}
            nodesConnectable={false}
            nodesFocusable={false}
            edgesFocusable={false}
            elementsSelectable={false}
            // the wheel scrolls the page; zoom with the buttons, pinch, or ctrl and wheel
            zoomOnScroll={false}
            preventScrolling={false}
            zoomOnDoubleClick={false}
            minZoom={0.2}
            maxZoom={1.5}
            defaultViewport={picture.viewport}
            proOptions={{ hideAttribution: true }}
          >
            <KeepInSight
              start={picture.viewport}
              position={selected === null ? undefined : layout.positions.get(selected)}
              size={size}
              coveredRight={coveredRight}
            />
            <Background gap={22} size={1.2} color="var(--tm-border)" />
            <Controls orientation="horizontal" showInteractive={false} fitViewOptions={FIT} position="bottom-left" />
            {picture.isCut && (
              <MiniMap
                pannable
                position="bottom-right"
                ariaLabel="Map of the graph"
                nodeColor={(node) => nodeColour?.(node.id) ?? 'var(--tm-border-strong)'}
                nodeBorderRadius={12}
                style={{ width: 150, height: MINIMAP_HEIGHT }}
              />
            )}
          </ReactFlow>
        </ContentsContext>
      )}
    </div>
  );
}

interface Picture {
  readonly height: number;
  readonly viewport: Viewport;
  /** The graph is larger than its initial view. */
  readonly isCut: boolean;
}

/** Sizes the canvas to the graph at the largest zoom that fits; a graph that never fits starts at its sources. */
function pictureOf({ positions }: Layout, size: NodeSize, width: number): Picture {
  const graphWidth = Math.max(...[...positions.values()].map(({ x }) => x)) + size.width;
  const graphHeight = Math.max(...[...positions.values()].map(({ y }) => y)) + size.height;
  const fitting = (width - 2 * SIDE_MARGIN) / graphWidth;
  const zoom = Math.max(MIN_READABLE_ZOOM, Math.min(1, fitting));
  const isTall = graphHeight * zoom + 2 * MARGIN > MAX_HEIGHT;
  const isCut = isTall || fitting < MIN_READABLE_ZOOM;
  const bottom = isCut ? MINIMAP_HEIGHT + MARGIN / 2 : MARGIN;
  const height = Math.round(Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, graphHeight * zoom + MARGIN + bottom)));
  const x = Math.max(SIDE_MARGIN, (width - graphWidth * zoom) / 2);
  const y = isTall ? MARGIN : Math.max(MARGIN, (height - bottom + MARGIN - graphHeight * zoom) / 2);
  return { height, viewport: { x, y, zoom }, isCut };
}

interface KeepInSightProps {
  readonly start: Viewport;
  readonly position: XYPosition | undefined;
  readonly size: NodeSize;
  readonly coveredRight: number;
}

/** Fits the graph again when the window's width changes, then pans the selected node out from behind the drawer. */
function KeepInSight({ start, position, size, coveredRight }: KeepInSightProps) {
  const { getViewport, setViewport, flowToScreenPosition } = useReactFlow();
  const { x: startX, y: startY, zoom } = start;
  useEffect(() => void setViewport({ x: startX, y: startY, zoom }), [startX, startY, zoom, setViewport]);
  const { x = null, y = 0 } = position ?? {};
  useEffect(() => {
    if (x === null || coveredRight === 0) return;
    const gap = 24;
    const right = flowToScreenPosition({ x: x + size.width, y }).x;
    const excess = right - (window.innerWidth - coveredRight - gap);
    const viewport = getViewport();
    if (excess > 0) void setViewport({ ...viewport, x: viewport.x - excess }, { duration: 200 });
  }, [startX, startY, zoom, x, y, size, coveredRight, getViewport, setViewport, flowToScreenPosition]);
  return null;
}

function BoxNode({ id }: NodeProps) {
  const contents = useContext(ContentsContext);
  return (
    <>
      <Handle type="target" position={Position.Left} className={classes.handle ?? ''} isConnectable={false} />
      {contents?.renderNode(id)}
      <Handle type="source" position={Position.Right} className={classes.handle ?? ''} isConnectable={false} />
    </>
  );
}

function LabelledEdge({ id, sourceX, sourceY, targetX, targetY }: EdgeProps) {
  const contents = useContext(ContentsContext);
  const [path, labelX, labelY] = getBezierPath({
    sourceX,
    sourceY,
    sourcePosition: Position.Right,
    targetX,
    targetY,
    targetPosition: Position.Left,
  });
  const edge = contents?.edges.get(id);
  if (edge === undefined) return null;
  return (
    <>
      <BaseEdge path={path} className={contents?.isFlowing(edge) ? classes.flowing : classes.still} />
      <EdgeLabelRenderer>
        <div
          className={classes.edgeLabel}
          style={{ transform: `translate(-50%, -50%) translate(${labelX}px, ${labelY}px)` }}
        >
          {contents?.renderEdge(edge)}
        </div>
      </EdgeLabelRenderer>
    </>
  );
}

/**
 * A graph with pan and zoom, laid out by itself or as the caller says; the caller renders nodes and edges.
 *
 * React Flow gets node objects that change only with the topology, so that moving numbers never touch the layout: what
 * the caller renders into nodes and edges reads its own numbers.
 */

import '@xyflow/react/dist/style.css';

import { useElementSize } from '@mantine/hooks';
import {
  Background,
  BaseEdge,
  Controls,
  EdgeLabelRenderer,
  type EdgeProps,
  Handle,
  MiniMap,
  type MiniMapNodeProps,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type Viewport,
  ViewportPortal,
  type XYPosition,
  useReactFlow,
} from '@xyflow/react';
import { type ComponentType, type ReactNode, createContext, useContext, useEffect, useMemo } from 'react';

import { SightContext, useSight } from '../../hooks/useSight';
import { type GraphEdge, type Topology, topologyKey } from '../../model/graph';
import { type Layout, type NodeSize, type Position as Place, edgePath, layoutOf } from '../../model/layout';
import type { Backdrop } from '../../model/pipeline/picture';
import drawing from '../../styles/drawing.module.css';
import { t } from '../../texts/t';
import { InSight } from '../InSight/InSight';
import classes from './GraphCanvas.module.css';

interface Contents {
  readonly renderNode: (id: string) => ReactNode;
  readonly renderEdge: (edge: GraphEdge) => ReactNode;
  readonly edges: ReadonlyMap<string, GraphEdge>;
  readonly renderLine: (edge: GraphEdge, path: string) => ReactNode;
  readonly lanes: Layout['lanes'];
  readonly size: NodeSize;
}

const ContentsContext = createContext<Contents | null>(null);

interface Props {
  readonly topology: Topology;
  /** Must be constant: a new object triggers a new layout. */
  readonly size: NodeSize;
  /** Upper left corners of the nodes, by id, from 0 on; null: they are laid out here. Must be constant, too. */
  readonly places?: ReadonlyMap<string, Place> | null;
  /** Behind the nodes; where they are laid out here, there are none. Must be constant, too. */
  readonly backdrops?: readonly Backdrop[];
  readonly label: string;
  readonly renderNode: (id: string) => ReactNode;
  readonly renderEdge: (edge: GraphEdge) => ReactNode;
  /** An SVG path; without it, lines stand still. */
  readonly renderLine?: (edge: GraphEdge, path: string) => ReactNode;
  /** A node of the minimap, an SVG element; without it, all have one colour. */
  readonly MapNode?: ComponentType<MiniMapNodeProps>;
  readonly selected?: string | null;
  /** Width covered at the right of the window, in px: the selected node is moved out of it. */
  readonly coveredRight?: number;
}

const NODE_TYPES = { box: BoxNode };
const EDGE_TYPES = { labelled: LabelledEdge };
const NO_BACKDROPS: readonly Backdrop[] = [];
const FIT = { padding: 0.06, maxZoom: 1 };
/** Below this zoom, the numbers in the nodes are unreadable. */
const MIN_READABLE_ZOOM = 0.66;
const STILL = (_: GraphEdge, path: string) => <Line path={path} flow={null} />;
const MIN_HEIGHT = 260;
const MAX_HEIGHT = 620;
/** Space above and below the graph for the controls, in px. */
const MARGIN = 60;
const SIDE_MARGIN = 24;
const MINIMAP_HEIGHT = 84;
/** Of the dashes of a line, until they are where they were; 11 px, as in the style sheet. */
const STEPS = 3;
const STEP = 11 / STEPS;

export function GraphCanvas(props: Props) {
  const {
    topology,
    size,
    places = null,
    backdrops = NO_BACKDROPS,
    label,
    renderNode,
    renderEdge,
    renderLine = STILL,
    MapNode,
    selected = null,
    coveredRight = 0,
  } = props;
  const { layout, shown } = useLayout(topology, size, places);
  const { ref, width } = useElementSize();
  const nodes = useMemo(
    () =>
      shown.nodes.map(({ id }): Node => ({
        id,
        type: 'box',
        position: layout.positions.get(id) ?? { x: 0, y: 0 },
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
    () => shown.edges.map(({ id, source, target }) => ({ id, source, target, type: 'labelled' })),
    [shown],
  );
  const edgesById = useMemo(() => new Map(shown.edges.map((edge) => [edge.id, edge])), [shown]);
  const contents = useMemo(
    () => ({ renderNode, renderEdge, edges: edgesById, renderLine, lanes: layout.lanes, size }),
    [renderNode, renderEdge, edgesById, renderLine, layout, size],
  );
  const picture = width === 0 ? null : pictureOf(extentOf(layout, size, backdrops), width);
  return (
    <div
      ref={ref}
      className={classes.canvas}
      style={{ height: picture?.height ?? MIN_HEIGHT }}
      role="group"
      aria-label={label}
    >
      {picture !== null && (
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
            <Backdrops all={backdrops} />
            <Background gap={22} size={1.2} color="var(--tm-border)" />
            <Controls orientation="horizontal" showInteractive={false} fitViewOptions={FIT} position="bottom-left" />
            {picture.isCut && (
              <MiniMap
                pannable
                position="bottom-right"
                ariaLabel={t('Map of the graph')}
                nodeColor="var(--tm-border-strong)"
                {...(MapNode && { nodeComponent: MapNode })}
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

/** The layout, computed only when the topology changes: its object does with every document. */
function useLayout(topology: Topology, size: NodeSize, places: ReadonlyMap<string, Place> | null) {
  const key = topologyKey(topology);
  return useMemo(
    () => ({
      shown: topology,
      layout: places === null ? layoutOf(topology, size) : { key, positions: places, lanes: new Map() },
    }),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the key stands for the topology
    [key, size, places],
  );
}

interface Picture {
  readonly height: number;
  readonly viewport: Viewport;
  /** The graph is larger than its initial view. */
  readonly isCut: boolean;
}

/** Width and height of the nodes and what is behind them, in px. */
function extentOf({ positions }: Layout, size: NodeSize, backdrops: readonly Backdrop[]): readonly [number, number] {
  const boxes = [...[...positions.values()].map((place) => ({ ...place, ...size })), ...backdrops];
  return [Math.max(...boxes.map(({ x, width }) => x + width)), Math.max(...boxes.map(({ y, height }) => y + height))];
}

/** Sizes the canvas to the graph at the largest zoom that fits; a graph that never fits starts at its sources. */
function pictureOf([graphWidth, graphHeight]: readonly [number, number], width: number): Picture {
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

function Backdrops({ all }: { readonly all: readonly Backdrop[] }) {
  return (
    <ViewportPortal>
      {all.map(({ id, kind, text, colour, x, y, width, height }) => (
        <div
          key={id}
          className={`${kind === 'group' ? drawing.frame : drawing.note} ${classes.backdrop}`}
          data-colour={colour}
          style={{ transform: `translate(${x}px, ${y}px)`, width, height }}
        >
          {kind === 'group' ? <span className={classes.groupName}>{text}</span> : text}
        </div>
      ))}
    </ViewportPortal>
  );
}

function BoxNode({ id }: NodeProps) {
  const contents = useContext(ContentsContext);
  return (
    <>
      <Handle type="target" position={Position.Left} className={classes.handle ?? ''} isConnectable={false} />
      <InSight className={classes.content}>{contents?.renderNode(id)}</InSight>
      <Handle type="source" position={Position.Right} className={classes.handle ?? ''} isConnectable={false} />
    </>
  );
}

interface LineProps {
  readonly path: string;
  /** A number that grows while records flow: the dashes have gone on by so many steps. Null: none flow. */
  readonly flow: number | null;
}

/** The line of an edge. An animation in its place would draw the whole canvas again sixty times a second. */
export function Line({ path, flow }: LineProps) {
  if (flow === null) return <BaseEdge path={path} className={classes.still} />;
  return <BaseEdge path={path} className={classes.flowing} style={{ strokeDashoffset: -(flow % STEPS) * STEP }} />;
}

function LabelledEdge({ id, sourceX, sourceY, targetX, targetY }: EdgeProps) {
  const contents = useContext(ContentsContext);
  const { ref, sight } = useSight();
  const edge = contents?.edges.get(id);
  if (contents === null || edge === undefined) return null;
  const { width, height } = contents.size;
  const { leaves = 0.5, enters = 0.5 } = edge;
  const { path, label } = edgePath(
    { x: sourceX, y: sourceY + (leaves - 0.5) * height },
    { x: targetX, y: targetY + (enters - 0.5) * height },
    contents.lanes.get(id) ?? [],
    width,
  );
  return (
    <SightContext value={sight}>
      {contents.renderLine(edge, path)}
      <EdgeLabelRenderer>
        <div
          ref={ref}
          className={classes.edgeLabel}
          style={{ transform: `translate(-50%, -50%) translate(${label.x}px, ${label.y}px)` }}
        >
          {contents.renderEdge(edge)}
        </div>
      </EdgeLabelRenderer>
    </SightContext>
  );
}

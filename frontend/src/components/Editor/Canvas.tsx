/**
 * The canvas. React Flow draws and drags; what is there comes from the editor's document and goes back to it: a drag is
 * one step of the history, at its end.
 */

import '@xyflow/react/dist/style.css';

import { Button } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import {
  Background,
  type Connection,
  ConnectionMode,
  Controls,
  type Edge,
  type EdgeChange,
  type FinalConnectionState,
  MarkerType,
  MiniMap,
  type Node,
  type NodeChange,
  type NodeProps,
  ReactFlow,
  SelectionMode,
  type Viewport,
  getViewportForBounds,
  useConnection,
  useNodesInitialized,
  useReactFlow,
  useStore,
  useStoreApi,
} from '@xyflow/react';
import {
  type DragEvent,
  type MouseEvent as ReactMouseEvent,
  type ReactNode,
  memo,
  startTransition,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type Problem, typeOf, worst } from '../../model/pipeline/catalog';
import { type Group, type PipelineDocument, type Point, nameOf, positionOf } from '../../model/pipeline/document';
import * as groups from '../../model/pipeline/groups';
import * as operations from '../../model/pipeline/operations';
import { type Selection, documentOf, factsOf, hiddenIn, makeId, portsOfNode } from '../../store/editor';
import { addAt, addNote, goToForm, writeNote } from './actions';
import drawing from '../../styles/drawing.module.css';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import classes from './Canvas.module.css';
import { GroupBox, GroupFrame } from './GroupBox';
import { isInField } from './keys';
import { BoxDetails, ConnectingFrom, NodeBox } from './NodeBox';
import { DRAG_TYPE, NOTE } from './Palette';
import { StreamEdge } from './StreamEdge';

const NODE_TYPES = { operator: NodeBox, note: NoteBox, group: GroupFrame, collapsed: GroupBox };
const EDGE_TYPES = { stream: StreamEdge };
const GRID: [number, number] = [10, 10];
const FIT = { padding: 0.18, maxZoom: 1 };
const MARKER = { type: MarkerType.ArrowClosed, width: 15, height: 15, color: 'var(--tm-border-strong)' };
const BOX: Point = [220, 62];
/** Zoom below which nothing in a box can be read: boxes are drawn in the colour of their category then. */
const FAR = 0.32;
const MIN_ZOOM = 0.15;
/** Number of boxes from which on details wait for the first paint, and for how long. */
const MANY = 60;
const DETAILS_AFTER_MS = 600;
/** About what is beside and above the canvas. */
const AROUND: Point = [560, 160];
const MAP_SIZE = { width: 140, height: 84 };
// React Flow compares what it is given: all of it is made once
const PAN_BUTTONS = [1, 2];
const MULTI_SELECTION_KEYS = ['Shift', 'Meta', 'Control'];
const PRO_OPTIONS = { hideAttribution: true };
const GROUP_MARGIN = 26;
/** From the corner of a group's frame to its nodes, with its head above them. */
const FRAME: Point = [GROUP_MARGIN, GROUP_MARGIN + 8];
/** Free space around a box that is brought into sight. */
const EDGE = 48;

type DragEnd = globalThis.MouseEvent | TouchEvent | ReactMouseEvent;

/** Node objects by id, kept while nothing of them changes: React Flow compares them. */
class Kept {
  private nodes = new Map<string, Node>();

  /** The node object of this id: the one from before if it is the same. */
  node(made: Node): Node {
    const old = this.nodes.get(made.id);
    const isSame =
      old?.position.x === made.position.x &&
      old.position.y === made.position.y &&
      old.selected === made.selected &&
      old.width === made.width &&
      old.height === made.height &&
      old.type === made.type &&
      old.measured === made.measured &&
      old.draggable === made.draggable;
    const kept = isSame ? old : made;
    this.nodes.set(made.id, kept);
    return kept;
  }
}

export function Canvas() {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const selection = useEditor((state) => state.history.selection);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const [dragged, setDragged] = useState<Readonly<Record<string, Point>>>({});
  // React Flow measures boxes, and asks for their sizes back
  const [sizes, setSizes] = useState<Readonly<Record<string, { width: number; height: number }>>>({});
  const [near, setNear] = useState<string | null>(null);
  const [kept] = useState(() => new Kept());
  const { screenToFlowPosition } = useReactFlow();
  const flowStore = useStoreApi();
  const hidden = useMemo(
    () => hiddenIn({ isReadOnly, history: { ...store.getState().history, present: document } }),
    [document, isReadOnly, store],
  );
  const nodes = useMemo(
    () => flowNodes(document, hidden, selection, dragged, sizes, !isReadOnly).map((node) => kept.node(node)),
    [document, hidden, selection, dragged, sizes, isReadOnly, kept],
  );
  const [viewport] = useState(() => firstViewport(nodes));
  const edges = useMemo(() => flowEdges(document, hidden, selection, near), [document, hidden, selection, near]);

  const onNodesChange = useCallback(
    (changes: NodeChange[]) => {
      const moved = new Map<string, Point>();
      const measured: Record<string, { width: number; height: number }> = {};
      const chosen = new Map<string, boolean>();
      for (const change of changes) {
        if (change.type === 'position' && change.position !== undefined && change.dragging === true) {
          moved.set(change.id, [change.position.x, change.position.y]);
        } else if (change.type === 'select') chosen.set(change.id, change.selected);
        else if (change.type === 'dimensions' && change.dimensions !== undefined)
          measured[change.id] = change.dimensions;
      }
      if (Object.keys(measured).length > 0) setSizes((before) => ({ ...before, ...measured }));
      if (moved.size > 0) {
        const state = store.getState();
        const to = framesMoved(documentOf(state), hiddenIn(state), moved);
        setDragged((before) => ({ ...before, ...Object.fromEntries(to) }));
      }
      if (chosen.size > 0) {
        const state = store.getState();
        const { nodes: old, notes, edges: lines } = state.history.selection;
        const isNote = (id: string) => Object.hasOwn(documentOf(state).layout?.notes ?? {}, id);
        const isNode = (id: string) => Object.hasOwn(documentOf(state).nodes, id);
        for (const [id, isChosen] of [...chosen]) {
          const group = documentOf(state).layout?.groups?.[groups.groupOfBox(id) ?? ''];
          for (const member of group?.nodes ?? []) chosen.set(member, isChosen);
        }
        const added = [...chosen].filter(([, isChosen]) => isChosen).map(([id]) => id);
        const keep = (ids: readonly string[]) => ids.filter((id) => chosen.get(id) !== false);
        state.select({
          edges: lines,
          nodes: [...new Set([...keep(old), ...added.filter(isNode)])],
          notes: [...new Set([...keep(notes), ...added.filter(isNote)])],
        });
      }
    },
    [store],
  );

  const onEdgesChange = useCallback(
    (changes: EdgeChange[]) => {
      // a frame drawn around boxes selects boxes: with their edges, deleting them would join nothing
      const isFraming = flowStore.getState().userSelectionRect !== null;
      const chosen = new Map(
        changes.flatMap((change) =>
          change.type === 'select' && !(isFraming && change.selected) ? [[change.id, change.selected]] : [],
        ),
      );
      if (chosen.size === 0) return;
      const { select, history } = store.getState();
      const left = history.selection.edges.filter((id) => chosen.get(id) !== false);
      const added = [...chosen].filter(([, isChosen]) => isChosen).map(([id]) => id);
      select({ ...history.selection, edges: [...new Set([...left, ...added])] });
    },
    [store, flowStore],
  );

  const onDragStop = useCallback(
    (event: DragEnd, node: Node, all: Node[]) => {
      const state = store.getState();
      const { transact } = state;
      setDragged({});
      const places = new Map(all.map(({ id, position }): [string, Point] => [id, [position.x, position.y]]));
      const moved = framesMoved(documentOf(state), hiddenIn(state), places);
      const to = new Map([...moved].map(([id, at]) => [id, operations.snapped(at)]));
      const edge = all.length === 1 ? edgeBelow(state, node, event) : null;
      const label =
        edge !== null ? t('Inserted {name}', { name: nameOf(documentOf(store.getState()), node.id) }) : t('Moved');
      transact(label, (before) => {
        let moved = groups.moveSeen(before, to);
        for (const [id, at] of to) moved = operations.changeNote(moved, id, { at });
        if (edge === null) return moved;
        return operations.insertOnEdge(moved, edge, node.id, portsOfNode(store.getState(), node.id), makeId) ?? moved;
      });
    },
    [store],
  );

  const why = useCallback(
    ({ source, sourceHandle, target, targetHandle }: Connection | Edge) => {
      const state = store.getState();
      const lookup = (id: string) => portsOfNode(state, id);
      return operations.refusal(
        documentOf(state),
        groups.realEnd([source, sourceHandle ?? '']),
        groups.realEnd([target, targetHandle ?? '']),
        lookup,
        (from) => factsOf(state, from),
      );
    },
    [store],
  );
  const isValid = useCallback((connection: Connection | Edge) => why(connection) === null, [why]);

  const onConnect = useCallback(
    ({ source, sourceHandle, target, targetHandle }: Connection) => {
      const { transact } = store.getState();
      const { nodes: known } = documentOf(store.getState());
      const from = groups.realEnd([source, sourceHandle ?? '']);
      const to = groups.realEnd([target, targetHandle ?? '']);
      const label = t('Connected {source} to {target}', {
        source: known[from[0]]?.name ?? '',
        target: known[to[0]]?.name ?? '',
      });
      transact(label, (before) => operations.connect(before, from, to, makeId).document);
    },
    [store],
  );

  const onConnectEnd = useCallback(
    (event: MouseEvent | TouchEvent, connection: FinalConnectionState) => {
      const { fromHandle, toNode, isValid: isDone } = connection;
      if (isDone === true || toNode !== null || fromHandle?.type !== 'source') return;
      const at = 'clientX' in event ? event : event.changedTouches[0];
      if (at === undefined) return;
      const from = groups.realEnd([fromHandle.nodeId, fromHandle.id ?? '']);
      store.getState().openQuickAdd({ screen: { x: at.clientX, y: at.clientY }, from });
    },
    [store],
  );

  const onDrop = useCallback(
    (event: DragEvent) => {
      const what = event.dataTransfer.getData(DRAG_TYPE);
      if (what === '') return;
      event.preventDefault();
      const at = screenToFlowPosition({ x: event.clientX, y: event.clientY });
      if (what === NOTE) {
        addNote(store, [at.x - operations.NOTE_SIZE[0] / 2, at.y - operations.NOTE_SIZE[1] / 2]);
        return;
      }
      const type = typeOf(store.getState().catalog, what);
      if (type === undefined) return;
      const edge = edgeAt(event.clientX, event.clientY);
      addAt(store, type, [at.x - BOX[0] / 2, at.y - BOX[1] / 2], edge === null ? {} : { edge });
    },
    [store, screenToFlowPosition],
  );

  const onSelectionDragStop = useCallback(
    (event: DragEnd, all: Node[]) => {
      const [first] = all;
      if (first !== undefined) onDragStop(event, first, all);
    },
    [onDragStop],
  );
  const onEdgeEnter = useCallback((_: unknown, { id }: Edge) => setNear(id), []);
  const onEdgeLeave = useCallback(() => setNear(null), []);
  const onNodeClick = useCallback(
    (event: ReactMouseEvent, { id }: Node) => {
      if (event.shiftKey || event.ctrlKey || event.metaKey) return;
      const state = store.getState();
      const { nodes: all, notes, edges: lines } = state.history.selection;
      if (all.length + notes.length + lines.length < 2) return;
      // React Flow leaves several selected where one of them is clicked; the box of a group stands for all its nodes
      if (Object.hasOwn(documentOf(state).nodes, id)) state.select({ nodes: [id] });
      else if (Object.hasOwn(documentOf(state).layout?.notes ?? {}, id)) state.select({ notes: [id] });
    },
    [store],
  );
  const onDoubleClick = useCallback(
    ({ target, clientX, clientY }: ReactMouseEvent) => {
      const isFree = target instanceof Element && target.classList.contains('react-flow__pane');
      if (isFree && !isReadOnly) store.getState().openQuickAdd({ screen: { x: clientX, y: clientY } });
    },
    [store, isReadOnly],
  );
  const onPaneClick = useCallback(() => store.getState().openQuickAdd(null), [store]);

  const isFar = useStore(({ transform }) => transform[2] < FAR);
  const hasDetails = useDetails(nodes.length > MANY && viewport.zoom < FAR, isFar);
  const from = useConnection((connection) => (connection.inProgress ? connection.fromHandle : null));

  const flow = (
    <ReactFlow
      data-far={isFar || undefined}
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      onNodeDragStop={onDragStop}
      onSelectionDragStop={onSelectionDragStop}
      onConnect={onConnect}
      onConnectEnd={onConnectEnd}
      isValidConnection={isValid}
      onEdgeMouseEnter={onEdgeEnter}
      onEdgeMouseLeave={onEdgeLeave}
      onDragOver={onDragOver}
      onDrop={onDrop}
      onNodeClick={onNodeClick}
      onNodeDoubleClick={onNodeDoubleClick}
      onDoubleClick={onDoubleClick}
      onMouseDown={keepText}
      onPaneClick={onPaneClick}
      connectionMode={ConnectionMode.Strict}
      connectionRadius={28}
      selectionMode={SelectionMode.Partial}
      selectionOnDrag={!isReadOnly}
      panOnDrag={isReadOnly ? true : PAN_BUTTONS}
      panOnScroll
      zoomOnDoubleClick={false}
      panActivationKeyCode="Space"
      multiSelectionKeyCode={MULTI_SELECTION_KEYS}
      selectionKeyCode={null}
      deleteKeyCode={null}
      snapToGrid
      snapGrid={GRID}
      nodesDraggable={!isReadOnly}
      nodesConnectable={!isReadOnly}
      nodesFocusable={false}
      edgesFocusable={false}
      disableKeyboardA11y
      elevateNodesOnSelect={false}
      onlyRenderVisibleElements={false}
      minZoom={MIN_ZOOM}
      maxZoom={1.8}
      defaultViewport={viewport}
      proOptions={PRO_OPTIONS}
    >
      <Background gap={20} size={1.2} color="var(--tm-border-strong)" />
      <Controls orientation="horizontal" showInteractive={false} fitViewOptions={FIT} position="bottom-left" />
      <Overview />
      <RefusalLine why={why} />
      <KeepInView />
      <FitOnce />
      {Object.keys(document.nodes).length === 0 && !isReadOnly && <EmptyCanvas />}
    </ReactFlow>
  );
  return (
    <BoxDetails value={hasDetails}>
      <ConnectingFrom value={from}>{flow}</ConnectingFrom>
    </BoxDetails>
  );
}

/** Whether boxes have texts and icons: where many are seen from afar, only a while after they are there. */
function useDetails(isLate: boolean, isFar: boolean): boolean {
  const [hasDetails, setDetails] = useState(!isLate);
  useEffect(() => {
    if (hasDetails) return;
    const add = () => startTransition(() => setDetails(true));
    const waiting = setTimeout(add, isFar ? DETAILS_AFTER_MS : 0);
    return () => clearTimeout(waiting);
  }, [hasDetails, isFar]);
  return hasDetails;
}

function onNodeDoubleClick(_: unknown, { type }: Node): void {
  if (type === 'operator') goToForm();
}

/** A double click marks no text beside the canvas: what is copied then would be that. */
function keepText({ detail, target, nativeEvent }: ReactMouseEvent): void {
  if (detail > 1 && !isInField(target)) nativeEvent.preventDefault();
}

function onDragOver(event: DragEvent): void {
  if (event.dataTransfer.types.includes(DRAG_TYPE)) event.preventDefault();
}

/** The map: drawn anew where a node moves, and as a whole when there are other problems. */
const Overview = memo(function Overview() {
  const problems = useEditor((state) => state.validation.problems);
  const all = useEditor((state) => documentOf(state).layout?.groups);
  const colour = useCallback((node: Node) => colourOf(problems, all, node), [problems, all]);
  return (
    <MiniMap
      pannable
      zoomable
      position="bottom-right"
      ariaLabel={t('Map of the pipeline')}
      nodeColor={colour}
      nodeBorderRadius={14}
      style={MAP_SIZE}
    />
  );
});

function colourOf(problems: readonly Problem[], all: Readonly<Record<string, Group>> | undefined, node: Node): string {
  if (node.type === 'note') return '#f0e1a0';
  if (node.type === 'group') return 'transparent';
  const nodes = all?.[groups.groupOfBox(node.id) ?? '']?.nodes ?? [node.id];
  const severity = worst(problems.filter((problem) => nodes.includes(problem.node ?? '')));
  if (severity === 'error') return 'var(--tm-failed)';
  return severity === 'warning' ? 'var(--tm-trouble)' : 'var(--tm-border-strong)';
}

/** About what `FitOnce` shows: boxes that are seen from afar are not painted in full before they are measured. */
function firstViewport(nodes: readonly Node[]): Viewport {
  if (nodes.length === 0) return { x: 0, y: 0, zoom: 1 };
  const left = Math.min(...nodes.map(({ position }) => position.x));
  const top = Math.min(...nodes.map(({ position }) => position.y));
  const right = Math.max(...nodes.map(({ position, width }) => position.x + (width ?? BOX[0])));
  const bottom = Math.max(...nodes.map(({ position, height }) => position.y + (height ?? BOX[1])));
  const bounds = { x: left, y: top, width: right - left, height: bottom - top };
  const [width, height] = [Math.max(200, innerWidth - AROUND[0]), Math.max(200, innerHeight - AROUND[1])];
  return getViewportForBounds(bounds, width, height, MIN_ZOOM, FIT.maxZoom, FIT.padding);
}

function flowNodes(
  document: PipelineDocument,
  hidden: groups.Hidden,
  selection: Selection,
  dragged: Readonly<Record<string, Point>>,
  sizes: Readonly<Record<string, { width: number; height: number }>>,
  isDraggable: boolean,
): Node[] {
  const chosen = new Set([...selection.nodes, ...selection.notes]);
  const place = (id: string, at: Point) => {
    const [x, y] = dragged[id] ?? at;
    return { x, y };
  };
  const all = Object.entries(document.layout?.groups ?? {});
  const isCollapsed = ([, { nodes }]: (typeof all)[number]) => nodes.some((id) => hidden.has(id));
  const boxes = all.filter(isCollapsed).map(([id, { nodes }]): Node => ({
    id: groups.boxOf(id),
    type: 'collapsed',
    position: place(groups.boxOf(id), groups.placeOfGroup(document, id)),
    data: {},
    draggable: isDraggable,
    // also if one of its nodes was chosen elsewhere: what is chosen can be seen
    selected: nodes.some((node) => chosen.has(node)),
  }));
  const frames = all
    .filter((group) => !isCollapsed(group))
    .map(([id, { nodes }]): Node => {
      const places = nodes.map((each) => place(each, positionOf(document, each)));
      const height = (index: number) => sizes[nodes[index] ?? '']?.height ?? BOX[1];
      const left = Math.min(...places.map(({ x }) => x)) - FRAME[0];
      const top = Math.min(...places.map(({ y }) => y)) - FRAME[1];
      const right = Math.max(...places.map(({ x }) => x)) + BOX[0] + GROUP_MARGIN;
      const bottom = Math.max(...places.map(({ y }, index) => y + height(index))) + GROUP_MARGIN;
      return {
        id: groups.boxOf(id),
        type: 'group',
        position: { x: left, y: top },
        data: {},
        width: right - left,
        height: bottom - top,
        draggable: isDraggable,
        dragHandle: `.${classes.groupHead ?? ''}`,
        selectable: false,
        zIndex: -2,
        style: { pointerEvents: 'none', background: 'none', border: 0, padding: 0 },
      };
    });
  const notes = Object.entries(document.layout?.notes ?? {}).map(([id, note]): Node => ({
    id,
    type: 'note',
    position: place(id, note.at),
    data: {},
    width: note.size[0],
    height: note.size[1],
    draggable: isDraggable,
    selected: chosen.has(id),
    zIndex: -1,
  }));
  const shown = Object.keys(document.nodes).filter((id) => !hidden.has(id));
  const nodes = shown.map((id): Node => ({
    id,
    type: 'operator',
    position: place(id, positionOf(document, id)),
    data: {},
    draggable: isDraggable,
    selected: chosen.has(id),
  }));
  return [...frames, ...notes, ...boxes, ...nodes].map((node) => {
    const measured = sizes[node.id];
    return measured === undefined ? node : { ...node, measured };
  });
}

/** Places of what is dragged, with the nodes of a group in place of its frame. */
function framesMoved(
  document: PipelineDocument,
  hidden: groups.Hidden,
  to: ReadonlyMap<string, Point>,
): ReadonlyMap<string, Point> {
  const moved = new Map(to);
  for (const [id, [x, y]] of to) {
    const group = groups.groupOfBox(id);
    const isFrame =
      group !== null && document.layout?.groups?.[group]?.nodes.some((node) => hidden.has(node)) === false;
    if (!isFrame) continue;
    moved.delete(id);
    const corner = operations.snapped([x + FRAME[0], y + FRAME[1]]);
    for (const [node, at] of Object.entries(groups.movedAsGroup(document, group, corner))) moved.set(node, at);
  }
  return moved;
}

function flowEdges(
  document: PipelineDocument,
  hidden: groups.Hidden,
  selection: Selection,
  near: string | null,
): Edge[] {
  const chosen = new Set(selection.edges);
  const shown = Object.entries(document.edges).filter(([, edge]) => groups.isSeen(hidden, edge));
  return shown.map(([id, edge]) => {
    const [from, to] = [groups.seenEnd(hidden, edge.from), groups.seenEnd(hidden, edge.to)];
    return {
      id,
      type: 'stream',
      source: from[0],
      sourceHandle: from[1],
      target: to[0],
      targetHandle: to[1],
      selected: chosen.has(id),
      markerEnd: MARKER,
      data: { isNear: near === id },
    };
  });
}

/** The edge below a point of the screen. */
function edgeAt(x: number, y: number): string | null {
  const below = globalThis.document.elementsFromPoint(x, y);
  const found = below.map((element) => element.closest<SVGElement>('.react-flow__edge')).find(Boolean);
  return found?.dataset.id ?? null;
}

/** The edge that a node without edges was dropped on, with the pointer or the middle of its box. */
function edgeBelow(state: Parameters<typeof documentOf>[0], node: Node, event: DragEnd): string | null {
  const document = documentOf(state);
  if (!Object.hasOwn(document.nodes, node.id)) return null;
  if (Object.values(document.edges).some(({ from, to }) => from[0] === node.id || to[0] === node.id)) return null;
  const box = globalThis.document.querySelector(`[data-node="${node.id}"]`)?.getBoundingClientRect();
  if (box === undefined) return null;
  const pointer = 'clientX' in event ? event : event.changedTouches[0];
  const heights = [0.5, 0.25, 0.75].map((part) => edgeAt(box.x + box.width / 2, box.y + box.height * part));
  const found = (pointer && edgeAt(pointer.clientX, pointer.clientY)) ?? heights.find((id) => id !== null) ?? null;
  const edge = document.edges[found ?? ''];
  const [input] = portsOfNode(state, node.id).inputs;
  if (edge === undefined || input === undefined) return found;
  const isRefused = operations.changelogRefusal(input, factsOf(state, edge.from), '') !== null;
  return isRefused ? null : found;
}

/** Says why the input below the pointer refuses the connection that is being drawn. */
function RefusalLine({ why }: { readonly why: (connection: Connection) => string | null }) {
  const refused = useConnection((connection) => {
    const { inProgress, fromHandle, toHandle } = connection;
    if (!inProgress || toHandle === null || connection.isValid === true) return null;
    const [output, input] = fromHandle.type === 'source' ? [fromHandle, toHandle] : [toHandle, fromHandle];
    if (output.type === input.type) return output.type === 'source' ? t('Both are outputs') : t('Both are inputs');
    return why({
      source: output.nodeId,
      sourceHandle: output.id ?? null,
      target: input.nodeId,
      targetHandle: input.id ?? null,
    });
  });
  return refused === null ? null : (
    <div className={classes.refusal} role="status">
      {refused}
    </div>
  );
}

/** Shows the whole pipeline once its boxes have been measured. */
function FitOnce() {
  const isMeasured = useNodesInitialized();
  const { fitView } = useReactFlow();
  const isDone = useRef(false);
  useEffect(() => {
    if (!isMeasured || isDone.current) return;
    isDone.current = true;
    void fitView(FIT);
  }, [isMeasured, fitView]);
  return null;
}

/** Brings the node that somebody jumped to into sight. */
function KeepInView() {
  const focus = useEditor((state) => state.focus);
  const store = useEditorStore();
  const { getViewport, setViewport, flowToScreenPosition } = useReactFlow();
  useEffect(() => {
    if (focus?.node === null || focus?.node === undefined) return;
    const state = store.getState();
    const [x, y] = groups.placeSeen(documentOf(state), hiddenIn(state), focus.node);
    const canvas = globalThis.document.querySelector('.react-flow')?.getBoundingClientRect();
    const start = flowToScreenPosition({ x, y });
    const end = flowToScreenPosition({ x: x + BOX[0], y: y + BOX[1] });
    if (canvas === undefined) return;
    // as little as shows the whole box
    const shift = (from: number, to: number, low: number, high: number) =>
      Math.max(0, low + EDGE - from) - Math.max(0, to + EDGE - high);
    const dx = shift(start.x, end.x, canvas.left, canvas.right);
    const dy = shift(start.y, end.y, canvas.top, canvas.bottom);
    const { x: left, y: top, zoom } = getViewport();
    if (dx !== 0 || dy !== 0) void setViewport({ x: left + dx, y: top + dy, zoom }, { duration: 200 });
  }, [focus, store, getViewport, setViewport, flowToScreenPosition]);
  return null;
}

function EmptyCanvas(): ReactNode {
  const store = useEditorStore();
  return (
    <div className={classes.empty}>
      <div className={classes.emptyBox}>
        <div className={classes.emptyTitle}>{t('Begin with a source')}</div>
        <div>
          {rich('Drag one from the left, press {key}, double-click here, or paste rows of a table.', {
            key: <kbd>N</kbd>,
          })}
        </div>
        <Button
          mt={6}
          leftSection={<IconPlus size={16} />}
          onClick={(event) => {
            const { left, bottom } = event.currentTarget.getBoundingClientRect();
            store.getState().openQuickAdd({ screen: { x: left, y: bottom + 6 } });
          }}
        >
          {t('Add a node')}
        </Button>
      </div>
    </div>
  );
}

function NoteBox({ id, selected }: NodeProps) {
  const note = useEditor((state) => documentOf(state).layout?.notes?.[id]);
  if (note === undefined) return null;
  const text = note.text.join('\n');
  return (
    <div
      className={drawing.note}
      data-colour={note.colour}
      data-selected={selected || undefined}
      title={t('Double-click to write')}
      onDoubleClick={writeNote}
    >
      {text === '' ? <span className={classes.noteHint}>{t('Empty note')}</span> : text}
    </div>
  );
}

/** What buttons, keys and menus do to the open pipeline: operations of the model as steps of its history. */

import type { NodeType } from '../../model/pipeline/catalog';
import {
  CLIPBOARD_FORMAT,
  copied,
  inlineNode,
  inlineType,
  pasted,
  readClip,
  readTable,
} from '../../model/pipeline/clipboard';
import { type PipelineDocument, type Point, nameOf, positionOf } from '../../model/pipeline/document';
import {
  type Direction,
  groupOf,
  groupOfBox,
  hiddenNodes,
  neighbour,
  seenAs,
  toggleCollapsed,
} from '../../model/pipeline/groups';
import * as operations from '../../model/pipeline/operations';
import {
  type EditorStore,
  type Selection,
  documentOf,
  factsOf,
  hiddenIn,
  makeId,
  portsOfNode,
} from '../../store/editor';
import { t } from '../../texts/t';
import { focusWhenDrawn } from './focus';

interface Where {
  readonly from?: readonly [string, string];
  readonly edge?: string;
}

/** Adds a node of a type at a place; into an edge, or connected to an output, if `where` names one. */
export function addAt(store: EditorStore, type: NodeType, at: Point, where: Where = {}): string | null {
  const state = store.getState();
  const edge = where.edge === undefined ? undefined : documentOf(state).edges[where.edge];
  if (edge !== undefined && !operations.fitsBehind(type, factsOf(state, edge.from))) {
    // it stands where it was dropped, beside the edge
    const [input] = type.ports.inputs;
    const why = input && operations.changelogRefusal(input, factsOf(state, edge.from), type.title);
    const alone = addAt(store, type, at);
    if (typeof why === 'string') store.getState().announce(why);
    return alone;
  }
  let id = '';
  const change = (document: PipelineDocument) => {
    const inserted = where.edge === undefined ? null : operations.insertNew(document, where.edge, type, makeId);
    const made = inserted ?? connected(document, type, operations.snapped(at), where.from ?? null);
    id = made.id;
    return made.document;
  };
  return state.transact(t('Added {title}', { title: type.title }), change, { select: () => ({ nodes: [id] }) })
    ? id
    : null;
}

function connected(
  document: PipelineDocument,
  type: NodeType,
  at: Point,
  from: readonly [string, string] | null,
): operations.Made {
  const made = operations.addNode(document, type, at, makeId);
  const [input] = type.ports.inputs;
  if (from === null || input === undefined) return made;
  return { document: operations.connect(made.document, from, [made.id, input.name], makeId).document, id: made.id };
}

/** A free place for a node behind another one, or beside everything. */
export function freePlace(document: PipelineDocument, behind: string | null): Point {
  if (behind === null) {
    const places = Object.keys(document.nodes).map((id) => positionOf(document, id));
    if (places.length === 0) return [0, 0];
    return [Math.min(...places.map(([x]) => x)), Math.max(...places.map(([, y]) => y)) + operations.STEP[1]];
  }
  const [x, y] = positionOf(document, behind);
  return operations.uncovered(document, [x + operations.STEP[0], y]);
}

export function removeSelected(store: EditorStore, label = t('Deleted')): void {
  const { transact, history } = store.getState();
  const { nodes, edges, notes } = history.selection;
  const names = nodes.map((id) => nameOf(history.present, id)).join(', ');
  transact(`${label} ${names === '' ? (edges.length > 0 ? t('connection') : t('note')) : names}`, (document) =>
    nodes.length + edges.length + notes.length === 0
      ? null
      : operations.remove(document, { nodes, edges, notes }, makeId),
  );
}

export function removeNode(store: EditorStore, id: string): void {
  const { transact, history } = store.getState();
  transact(t('Deleted {present}', { present: nameOf(history.present, id) }), (document) =>
    operations.remove(document, { nodes: [id] }, makeId),
  );
}

export function duplicateSelected(store: EditorStore): void {
  const { history } = store.getState();
  const clip = copied(history.present, history.selection.nodes, history.selection.notes);
  if (clip === null) return;
  const corners = [...Object.values(clip.positions), ...clip.notes.map(({ at }) => at)];
  const left = Math.min(...corners.map(([x]) => x));
  const top = Math.min(...corners.map(([, y]) => y));
  paste(store, t('Duplicated'), clip, [left + 40, top + 90]);
}

function paste(store: EditorStore, label: string, clip: Parameters<typeof pasted>[1], at: Point): void {
  const { transact } = store.getState();
  let chosen: Partial<Selection> = {};
  const change = (document: PipelineDocument) => {
    const made = pasted(document, clip, operations.uncovered(document, at), makeId);
    chosen = { nodes: made.nodes, notes: made.notes };
    return made.document;
  };
  transact(t('{label} {count} nodes', { label, count: Object.keys(clip.nodes).length }), change, {
    select: () => chosen,
  });
}

/** The text that a copy puts on the clipboard; null if nothing is selected. */
export function clipText(store: EditorStore): string | null {
  const { history, announce } = store.getState();
  const clip = copied(history.present, history.selection.nodes, history.selection.notes);
  if (clip === null) return null;
  announce(t('Copied {count} nodes', { count: Object.keys(clip.nodes).length }));
  return JSON.stringify(clip);
}

/** Pastes nodes, or rows of a table as a source. */
export function pasteText(store: EditorStore, text: string, at: Point): void {
  const clip = readClip(text);
  if (clip !== null) {
    paste(store, t('Pasted'), clip, at);
    return;
  }
  const { catalog, transact, announce } = store.getState();
  if (text.includes(CLIPBOARD_FORMAT)) {
    announce(t('The nodes on the clipboard cannot be read: another release has copied them'));
    return;
  }
  const table = readTable(text);
  const type = inlineType(catalog.types);
  if (table === null || type === undefined) {
    announce(t('The clipboard has neither nodes nor rows of a table'));
    return;
  }
  let id = '';
  const change = (document: PipelineDocument) => {
    const node = inlineNode(document, type, table, makeId);
    const made = operations.withNode(document, node, operations.uncovered(document, at), makeId);
    id = made.id;
    return made.document;
  };
  transact(t('Pasted {count} rows', { count: table.rows.length }), change, { select: () => ({ nodes: [id] }) });
}

export function toggleDisabled(store: EditorStore, ids: readonly string[]): void {
  const { transact, history } = store.getState();
  const isOff = ids.every((id) => history.present.nodes[id]?.disabled === true);
  const names = ids.map((id) => nameOf(history.present, id)).join(', ');
  transact(`${isOff ? t('Enabled') : t('Disabled')} ${names}`, (document) => operations.toggleDisabled(document, ids));
}

export function groupSelected(store: EditorStore): void {
  const { transact, history } = store.getState();
  transact(
    t('Grouped'),
    (document) => operations.addGroup(document, history.selection.nodes, makeId)?.document ?? null,
  );
}

/** Collapses the groups that the nodes are in, or expands them. */
export function toggleGroups(store: EditorStore, nodes: readonly string[]): void {
  const { transact, history, announce } = store.getState();
  const groups = new Map(nodes.flatMap((id) => [groupOf(history.present, id)].filter((found) => found !== null)));
  if (groups.size === 0) {
    announce(t('The selected nodes are in no group'));
    return;
  }
  const isOpen = [...groups.values()].some(({ collapsed }) => !collapsed);
  const names = [...groups.values()].map(({ name }) => name).join(', ');
  transact(`${isOpen ? t('Collapsed') : t('Expanded')} ${names}`, (document) =>
    toggleCollapsed(document, [...groups.keys()]),
  );
}

export function addNote(store: EditorStore, at: Point): void {
  let id = '';
  const change = (document: PipelineDocument) => {
    const made = operations.addNote(document, operations.snapped(at), makeId);
    id = made.id;
    return made.document;
  };
  if (store.getState().transact(t('Added a note'), change, { select: () => ({ notes: [id] }) })) writeNote();
}

/** What Enter and a double click lead to: the first field of a form. */
const FIRST_FIELD = t(
  'input[data-field], textarea[data-field], [data-field] :is(input, textarea, .cm-content, button), textarea',
);

/** Gives the first field of what is selected the focus: of a node's form, or a note's text. */
export function goToForm(field = FIRST_FIELD): void {
  const panel = globalThis.document.querySelector<HTMLElement>('[data-inspector]');
  if (panel !== null) focusWhenDrawn(panel, field);
}

/** Gives the text of the note that is selected the focus. */
export function writeNote(): void {
  goToForm('textarea[data-note]');
}

export function selectAll(store: EditorStore): void {
  const { select, history } = store.getState();
  const { nodes, edges, layout } = history.present;
  select({ nodes: Object.keys(nodes), edges: Object.keys(edges), notes: Object.keys(layout?.notes ?? {}) });
}

/** Selects the next node in a direction, or moves the selected ones there. */
export function step(store: EditorStore, direction: Direction, isMove: boolean): void {
  const { history, jumpTo, transact, announce } = store.getState();
  const { nodes } = history.selection;
  const [first] = nodes;
  if (isMove) {
    const [dx, dy] = { left: [-10, 0], right: [10, 0], up: [0, -10], down: [0, 10] }[direction] as [number, number];
    transact(
      t('Moved'),
      (document) => {
        const to = nodes.map((id) => {
          const [x, y] = positionOf(document, id);
          return [id, [x + dx, y + dy] as Point];
        });
        return operations.moveNodes(document, Object.fromEntries(to) as Record<string, Point>);
      },
      { mergeKey: `move ${nodes.join(' ')}` },
    );
    return;
  }
  const hidden = hiddenIn(store.getState());
  const start = Object.keys(history.present.nodes)[0];
  const next =
    first === undefined ? (start === undefined ? null : [start]) : neighbour(history.present, hidden, first, direction);
  const [node] = next ?? [];
  if (next === null || node === undefined) return;
  jumpTo(node);
  const group = hidden.get(node);
  if (group === undefined) announce(t('{present} selected', { present: nameOf(history.present, node) }));
  else {
    // what is seen of them is one box
    store.getState().select({ nodes: next });
    announce(
      t('Group {name} selected, {count} nodes', {
        name: history.present.layout?.groups?.[group]?.name ?? '',
        count: next.length,
      }),
    );
  }
}

export interface Target {
  readonly from: readonly [string, string];
  readonly to: readonly [string, string];
  readonly text: string;
  /** Null: allowed. */
  readonly refusal: string | null;
}

/** Everything that a node's outputs could be connected to, what is allowed first. */
export function targetsFor(store: EditorStore, id: string): readonly Target[] {
  const state = store.getState();
  const document = documentOf(state);
  const lookup = (each: string) => portsOfNode(state, each);
  const outputs = lookup(id).outputs;
  const found = outputs.flatMap((output) =>
    Object.keys(document.nodes)
      .filter((other) => other !== id)
      .flatMap((other) => {
        const inputs = lookup(other).inputs;
        return inputs.map((input): Target => {
          const to = [other, input.name] as const;
          const from = [id, output.name] as const;
          const port = inputs.length > 1 ? ` (${input.label || input.name})` : '';
          const start = outputs.length > 1 ? `${output.label || output.name} → ` : '';
          return {
            from,
            to,
            text: `${start}${nameOf(document, other)}${port}`,
            refusal: operations.refusal(document, from, to, lookup, (output) => factsOf(state, output)),
          };
        });
      }),
  );
  return found.sort((one, other) => Number(one.refusal !== null) - Number(other.refusal !== null));
}

export function connect(store: EditorStore, { from, to }: Target): void {
  const { transact, history } = store.getState();
  const label = t('Connected {source} to {target}', {
    source: nameOf(history.present, from[0]),
    target: nameOf(history.present, to[0]),
  });
  transact(label, (document) => operations.connect(document, from, to, makeId).document);
}

/** Lays all boxes out anew, as one step. */
export async function arrange(store: EditorStore): Promise<void> {
  const { layered } = await import('./layered');
  const state = store.getState();
  const hidden = hiddenNodes(documentOf(state));
  const heights = new Map(
    Object.keys(documentOf(state).nodes).map((node) => {
      const id = seenAs(hidden, node);
      const group = groupOfBox(id);
      const selector = group === null ? `[data-node="${id}"]` : `[data-group="${group}"]`;
      return [id, globalThis.document.querySelector<HTMLElement>(selector)?.offsetHeight ?? 62];
    }),
  );
  const to = layered(documentOf(state), heights);
  state.transact(t('Arranged'), (document) => operations.moveNodes(document, to));
}

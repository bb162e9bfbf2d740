/** The editor of one pipeline: header, palette or outline, canvas, inspector, and a dock below. */

import { ActionIcon, Button, Menu, Tooltip } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import {
  IconAdjustmentsHorizontal,
  IconArrowBackUp,
  IconArrowForwardUp,
  IconChevronRight,
  IconDeviceFloppy,
  IconDots,
  IconLayoutSidebarLeftCollapse,
  IconLayoutSidebarLeftExpand,
} from '@tabler/icons-react';
import { ReactFlowProvider, useReactFlow } from '@xyflow/react';
import { type ReactNode, Suspense, lazy, useEffect, useEffectEvent, useMemo, useRef, useState } from 'react';
import { Link } from 'react-router';

import { fetchVersion } from '../../api/pipelines';
import { EditorContext, useEditor, useEditorStore } from '../../hooks/useEditor';
import { type Begun, useAutosave } from '../../hooks/useAutosave';
import { useCommands } from '../../hooks/useCommands';
import { useDeployments } from '../../hooks/useDeployments';
import { type EditorLinks, useEditorLinks } from '../../hooks/useEditorLinks';
import { usePreviewing } from '../../hooks/usePreview';
import { useTimes } from '../../hooks/useTimes';
import { useValidation } from '../../hooks/useValidation';
import { redoLabel, undoLabel } from '../../model/pipeline/history';
import * as operations from '../../model/pipeline/operations';
import { isSameDocument } from '../../model/pipeline/order';
import { whereKept } from '../../model/pipeline/saving';
import type { EditorStore } from '../../store/editor';
import { documentOf, portsOfNode } from '../../store/editor';
import { t } from '../../texts/t';
import * as actions from './actions';
import { Canvas } from './Canvas';
import look from './Canvas.module.css';
import { Deploy, RunningChip } from './Deploy';
import type { Step } from './DeployDialog';
import { ConnectDialog, SaveDialog } from './Dialogs';
import { Dock, Problems } from './Dock';
import { editorCommands } from './editorCommands';
import classes from './Editor.module.css';
import { Inspector } from './Inspector';
import { NameField } from './NameField';
import { isInField, pressed } from './keys';
import { Outline } from './Outline';
import { Palette } from './Palette';
import { PreviewButton } from './PreviewButton';
import { PreviewScope } from './PreviewScope';
import { QuickAdd } from './QuickAdd';
import { useExport } from './useExport';

const Versions = lazy(async () => ({ default: (await import('./Versions')).Versions }));
const Conflicts = lazy(async () => ({ default: (await import('./Conflicts')).Conflicts }));
const ShortcutSheet = lazy(async () => ({ default: (await import('./ShortcutSheet')).ShortcutSheet }));
const Compare = lazy(async () => ({ default: (await import('./Compare')).Compare }));

interface Props {
  readonly store: EditorStore;
  readonly begun: Begun;
  /** Who else has a draft. */
  readonly others: readonly string[];
}

/** Narrower windows show the outline in place of the canvas, to be read. */
const NARROW = '(max-width: 760px)';

export function Editor({ store, begun, others }: Props) {
  const isNarrow = useMediaQuery(NARROW, window.matchMedia(NARROW).matches, { getInitialValueInEffect: false });
  return (
    <EditorContext value={store}>
      <PreviewScope>
        <ReactFlowProvider>
          {isNarrow ? <Reader store={store} /> : <Workbench store={store} begun={begun} others={others} />}
        </ReactFlowProvider>
      </PreviewScope>
    </EditorContext>
  );
}

type Side = 'palette' | 'outline' | null;

function Workbench({ store, begun, others }: Props) {
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const hasConflicts = useEditor((state) => state.conflicts.length > 0);
  useValidation(store);
  const autosave = useAutosave(store, begun, isReadOnly);
  const [side, setSide] = useState<Side>(isReadOnly ? 'outline' : 'palette');
  const [dock, setDock] = useState<string | null>('problems');
  const [isSheet, setSheet] = useState(false);
  const [connecting, setConnecting] = useState<string | null>(null);
  const saving = useSaving(autosave);
  const deployments = useDeployments(useEditor((state) => state.pipelineId));
  const links = useEditorLinks();
  const [deploying, setDeploying] = useState<Step | null>(() => linkedStep(links));
  const isChanged = useIsChanged();
  useArrival(store, links);
  // whoever selects something wants to see it
  const hasSelection = useEditor(
    ({ history: { selection } }) => selection.nodes.length + selection.edges.length + selection.notes.length > 0,
  );
  const isVersions = links.isVersions && !hasSelection;
  const toggleVersions = (isOpen: boolean) => {
    store.getState().select({});
    links.go({ panel: isOpen ? 'versions' : null });
  };
  const previewing = usePreviewing(store, () => setDock('preview'));
  const canvas = useRef<HTMLDivElement>(null);
  const { screenToFlowPosition } = useReactFlow();
  const panel = useRef<HTMLElement>(null);
  const rename = () => {
    const field = panel.current?.querySelector<HTMLInputElement>('[data-name-field]');
    field?.focus();
    field?.select();
  };
  const targets = {
    connect: setConnecting,
    rename,
    form: () => actions.goToForm(),
    save: () => {
      if (!isReadOnly) saving.open();
    },
    outline: () => setSide((old) => (old === 'outline' ? 'palette' : 'outline')),
    problems: () => setDock((old) => (old === 'problems' ? null : 'problems')),
    preview: previewing.toggle,
    sheet: () => setSheet(true),
    note: () => {
      const { x, y } = screenToFlowPosition(middleOf(canvas.current));
      const [width, height] = operations.NOTE_SIZE;
      actions.addNote(store, [x - width / 2, y - height / 2]);
    },
    canvas: () => canvas.current?.focus(),
  };
  useKeyboard(store, canvas, targets);
  useCommands(() =>
    editorCommands(store, {
      ...targets,
      deploy: () => setDeploying({ kind: 'ask', version: null }),
      versions: () => toggleVersions(true),
    }),
  );
  return (
    <div className={classes.editor} data-bleed data-side={side ?? undefined}>
      <Header
        others={others}
        onSave={saving.open}
        preview={<PreviewButton isDisabled={isReadOnly} onStart={previewing.start} onStop={previewing.stop} />}
        onSheet={() => setSheet(true)}
        onVersions={() => toggleVersions(!isVersions)}
        onSide={() => setSide((old) => (old === null ? 'palette' : null))}
        isSideOpen={side !== null}
        running={
          <>
            {links.version !== null && (
              <Button size="compact-sm" variant="default" onClick={() => links.go({ version: null })}>
                {t('Back to the draft')}
              </Button>
            )}
            <RunningChip
              deployments={deployments}
              onFollow={(deployment) => setDeploying({ kind: 'follow', deployment })}
            />
          </>
        }
        deploy={
          <Deploy
            autosave={autosave}
            deployments={deployments}
            isChanged={isChanged}
            step={deploying}
            onStep={(step) => {
              setDeploying(step);
              // closed, it is not opened again by a reload
              if (links.deploy !== null) links.go({ deploy: null, from: null }, 'replace');
            }}
            onVersions={() => toggleVersions(true)}
          />
        }
      />
      {hasConflicts && (
        <Suspense>
          <Conflicts />
        </Suspense>
      )}
      {links.compare !== null && (
        <Suspense>
          <Compare sides={links.compare} onClose={() => links.go({ compare: null })} />
        </Suspense>
      )}
      <div className={classes.work} hidden={links.compare !== null}>
        {side !== null && (
          <aside className={classes.side} aria-label={side === 'palette' ? t('Nodes to add') : t('Outline')}>
            <div className={classes.sides} role="group" aria-label={t('Left panel')}>
              {(['palette', 'outline'] as const).map((each) => (
                <button
                  key={each}
                  type="button"
                  className={classes.sideTab}
                  aria-pressed={side === each}
                  onClick={() => setSide(each)}
                >
                  {each === 'palette' ? t('Add') : t('Outline')}
                </button>
              ))}
            </div>
            <div className={classes.sideBody}>
              {side === 'palette' && !isReadOnly ? (
                <Palette />
              ) : (
                <Outline
                  onConnect={setConnecting}
                  onRename={(id) => {
                    store.getState().select({ nodes: [id] });
                    setTimeout(rename);
                  }}
                />
              )}
            </div>
          </aside>
        )}
        <div className={classes.middle}>
          <div
            ref={canvas}
            className={`${classes.canvas ?? ''} ${look.canvas ?? ''}`}
            data-canvas
            tabIndex={0}
            role="group"
            aria-label={t('Canvas: arrow keys go from node to node')}
          >
            <Canvas />
          </div>
          <Dock tab={dock} onTab={setDock} onPreview={previewing.start} />
        </div>
        <aside
          ref={panel}
          className={classes.inspector}
          data-inspector
          aria-label={isVersions ? t('Versions') : t('Inspector')}
        >
          {isVersions ? (
            <Suspense>
              <Versions
                deployments={deployments}
                shown={links.version}
                isChanged={isChanged}
                onOpen={(version) => links.go({ version: String(version) })}
                onCompare={(compare) => links.go({ compare, version: null })}
                onRestore={(version) => links.go({ restore: String(version), version: null })}
                onDeploy={(version) => setDeploying({ kind: 'ask', version })}
                onClose={() => links.go({ panel: null })}
              />
            </Suspense>
          ) : (
            <Inspector />
          )}
        </aside>
      </div>
      <Announcer />
      <QuickAdd />
      {connecting !== null && <ConnectDialog id={connecting} onClose={() => setConnecting(null)} />}
      {isSheet && (
        <Suspense>
          <ShortcutSheet onClose={() => setSheet(false)} />
        </Suspense>
      )}
      {saving.dialog}
    </div>
  );
}

/** Does what the link asks for that led here: shows a node and a line, or makes an old version the draft. */
function useArrival(store: EditorStore, { node, line, restore, version, go }: EditorLinks): void {
  const onNode = useEffectEvent((id: string) => {
    const { jumpTo, announce } = store.getState();
    if (Object.hasOwn(documentOf(store.getState()).nodes, id)) jumpTo(id, line === null ? null : '/params/code', line);
    else announce(t('The node is no longer in the pipeline'));
    go({ node: null, line: null }, 'replace');
  });
  useEffect(() => {
    if (node !== null) onNode(node);
  }, [node]);
  const onRestore = useEffectEvent(async (number: number) => {
    const { pipelineId, transact, announce } = store.getState();
    go({ restore: null }, 'replace');
    try {
      const { document } = await fetchVersion(pipelineId, number);
      transact(t('Version {number} again', { number }), () => document);
    } catch (error) {
      announce(error instanceof Error ? error.message : t('The version cannot be read'));
    }
  });
  useEffect(() => {
    if (restore !== null && version === null) void onRestore(restore);
  }, [restore, version]);
}

/** The step of the dialog that a link leads to. */
function linkedStep({ deploy, from }: EditorLinks): Step | null {
  return deploy === null ? null : { kind: 'report', version: deploy, from: from ?? '' };
}

function useSaving(autosave: ReturnType<typeof useAutosave>) {
  const store = useEditorStore();
  const head = useEditor((state) => state.head.number);
  const [isOpen, setOpen] = useState(false);
  const [isSaving, setSaving] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const save = async (message: string) => {
    setSaving(true);
    setError(null);
    try {
      const version = await autosave.save(message);
      if (version === null)
        setError(t('Somebody saved a version in the meantime; both were merged. Review the result and save again.'));
      else {
        store.getState().announce(t('Saved version {number}', { number: version.number }));
        setOpen(false);
      }
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
    } finally {
      setSaving(false);
    }
  };
  const dialog: ReactNode = isOpen && (
    <SaveDialog
      next={head + 1}
      isSaving={isSaving}
      error={error}
      onSave={(message) => void save(message)}
      onClose={() => setOpen(false)}
    />
  );
  return {
    open: () => {
      setError(null);
      setOpen(true);
    },
    dialog,
  };
}

type Targets = Omit<Parameters<typeof pressed>[2], 'quickAdd'>;

function middleOf(canvas: HTMLElement | null): { readonly x: number; readonly y: number } {
  const box = canvas?.getBoundingClientRect() ?? new DOMRect(0, 0, 800, 600);
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

/** Keys, and the clipboard's events, which work without a secure context, too. */
function useKeyboard(store: EditorStore, canvas: React.RefObject<HTMLDivElement | null>, targets: Targets): void {
  const { screenToFlowPosition } = useReactFlow();
  // while versions are compared, keys change nothing that cannot be seen
  const isHidden = () => Boolean(canvas.current?.closest('[hidden]'));
  // whether the key closes suggestions, or ends a composition, which it has done by the time it arrives here
  const isTaken = useRef(false);
  const onCapture = (event: KeyboardEvent) => {
    const isOpen = event.target instanceof HTMLElement && event.target.getAttribute('aria-expanded') === 'true';
    isTaken.current = event.key === 'Escape' && (isOpen || event.isComposing);
  };
  const onKey = useEffectEvent((event: KeyboardEvent) => {
    if (event.defaultPrevented || isTaken.current || isHidden()) return;
    const quickAdd = () => {
      const state = store.getState();
      const [first] = state.history.selection.nodes;
      const output = first === undefined ? undefined : portsOfNode(state, first).outputs[0];
      const { x, y } = middleOf(canvas.current);
      const screen = { x: x - 160, y: y - 160 };
      state.openQuickAdd(
        first === undefined || output === undefined ? { screen } : { screen, from: [first, output.name] },
      );
    };
    if (pressed(store, event, { ...targets, quickAdd })) event.preventDefault();
  });
  const onClipboard = useEffectEvent((event: ClipboardEvent) => {
    if (isInField(event.target) || event.clipboardData === null || isHidden()) return;
    if (event.type === 'paste') {
      const { x, y } = screenToFlowPosition(middleOf(canvas.current));
      actions.pasteText(store, event.clipboardData.getData('text/plain'), operations.snapped([x - 110, y - 40]));
    } else {
      // marked text is copied as text
      if (window.getSelection()?.isCollapsed === false) return;
      const text = actions.clipText(store);
      if (text === null) return;
      event.clipboardData.setData('text/plain', text);
      if (event.type === 'cut') actions.removeSelected(store, t('Cut'));
    }
    event.preventDefault();
  });
  useEffect(() => {
    const key = (event: KeyboardEvent) => onKey(event);
    const capture = (event: KeyboardEvent) => onCapture(event);
    const clip = (event: ClipboardEvent) => onClipboard(event);
    window.addEventListener('keydown', capture, true);
    window.addEventListener('keydown', key);
    for (const name of ['copy', 'cut', 'paste'] as const) window.addEventListener(name, clip);
    return () => {
      window.removeEventListener('keydown', capture, true);
      window.removeEventListener('keydown', key);
      for (const name of ['copy', 'cut', 'paste'] as const) window.removeEventListener(name, clip);
    };
  }, []);
}

interface HeaderProps {
  readonly others: readonly string[];
  readonly onSave: () => void;
  readonly onSheet: () => void;
  readonly onVersions: () => void;
  readonly onSide: () => void;
  readonly isSideOpen: boolean;
  /** Which version runs. */
  readonly running: ReactNode;
  readonly deploy: ReactNode;
  readonly preview: ReactNode;
}

/** Whether the document differs from the head. */
function useIsChanged(): boolean {
  const document = useEditor(documentOf);
  const head = useEditor((state) => state.head);
  return useMemo(() => !isSameDocument(document, head.document), [document, head]);
}

function Header({ others, onSave, onSheet, onVersions, onSide, isSideOpen, running, deploy, preview }: HeaderProps) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const undoable = useEditor((state) => undoLabel(state.history));
  const redoable = useEditor((state) => redoLabel(state.history));
  const isChanged = useIsChanged();
  const saveFile = useExport();
  return (
    <header className={classes.header}>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={isSideOpen ? t('Close the left panel') : t('Open the left panel')}
        onClick={onSide}
      >
        {isSideOpen ? <IconLayoutSidebarLeftCollapse size={19} /> : <IconLayoutSidebarLeftExpand size={19} />}
      </ActionIcon>
      <Crumbs />
      <h1 className={classes.name}>
        <span className="tm-visually-hidden">{document.name}</span>
        <NameField
          key={document.name}
          label={t('Name of the pipeline')}
          value={document.name}
          isReadOnly={isReadOnly}
          onRename={(name) =>
            store.getState().transact(t('Renamed the pipeline'), (before) => operations.renamePipeline(before, name))
          }
        />
      </h1>
      <VersionChip isChanged={isChanged} />
      {running}
      {others.length > 0 && (
        <span className={classes.others}>
          {others.length === 1
            ? t('{others} is also editing', { others: others.join() })
            : t('{others} are also editing', { others: others.join(', ') })}
        </span>
      )}
      <span className={classes.spring} />
      <HistoryButton label={t('Undo')} what={undoable} onClick={() => store.getState().undo()}>
        <IconArrowBackUp size={19} aria-hidden />
      </HistoryButton>
      <HistoryButton label={t('Redo')} what={redoable} onClick={() => store.getState().redo()}>
        <IconArrowForwardUp size={19} aria-hidden />
      </HistoryButton>
      {preview}
      <Menu position="bottom-end" width={220}>
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t('More')}>
            <IconDots size={19} aria-hidden />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            leftSection={<IconAdjustmentsHorizontal size={16} aria-hidden />}
            disabled={isReadOnly}
            onClick={() => void actions.arrange(store)}
          >
            {t('Arrange')}
          </Menu.Item>
          <Menu.Item onClick={onVersions}>{t('Versions')}</Menu.Item>
          <Menu.Item onClick={() => store.getState().select({})}>{t('Settings of the pipeline')}</Menu.Item>
          <Menu.Item onClick={saveFile}>{t('Export as JSON')}</Menu.Item>
          <Menu.Divider />
          <Menu.Item onClick={onSheet}>{t('Keyboard')}</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Button
        size="sm"
        leftSection={<IconDeviceFloppy size={17} aria-hidden />}
        disabled={isReadOnly || !isChanged}
        onClick={onSave}
      >
        {t('Save')}
      </Button>
      {deploy}
    </header>
  );
}

function Crumbs() {
  return (
    <nav className={classes.crumbs} aria-label={t('Breadcrumb')}>
      <Link to="/pipelines">{t('Pipelines')}</Link>
      <IconChevronRight size={14} aria-hidden />
    </nav>
  );
}

interface HistoryButtonProps {
  readonly label: string;
  readonly what: string | null;
  readonly onClick: () => void;
  readonly children: ReactNode;
}

function HistoryButton({ label, what, onClick, children }: HistoryButtonProps) {
  return (
    <Tooltip label={what === null ? t('Nothing to {label}', { label: label.toLowerCase() }) : `${label}: ${what}`}>
      <ActionIcon
        variant="subtle"
        color="gray"
        size="lg"
        aria-label={what === null ? label : `${label}: ${what}`}
        aria-disabled={what === null}
        className={what === null ? (classes.off ?? '') : ''}
        onClick={onClick}
      >
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

const NOT_KEPT = t('This browser keeps no copy: the pipeline is too large for it, or its storage is full or blocked.');

/** Says which of version, draft and this browser is meant. */
function VersionChip({ isChanged }: { readonly isChanged: boolean }) {
  const times = useTimes();
  const head = useEditor((state) => state.head.number);
  const saveState = useEditor((state) => state.saveState);
  const saveError = useEditor((state) => state.saveError);
  const savedAt = useEditor((state) => state.savedAt);
  const isKept = useEditor((state) => state.isKept);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  if (isReadOnly) return <span className={classes.chip}>{t('Version {head} · read only', { head })}</span>;
  if (!isChanged) return <span className={classes.chip}>{t('Version {head}', { head })}</span>;
  const where = whereKept(saveState, isKept, savedAt === null ? null : times.time(savedAt));
  const why = [saveError, saveState === 'saved' || isKept ? null : NOT_KEPT].filter((text) => text !== null);
  return (
    <span className={classes.chip} data-failed={saveState === 'failed' || undefined} title={why.join(' ')}>
      {t('Draft of version {head} · {where}', { head, where })}
    </span>
  );
}

function Announcer() {
  const text = useEditor((state) => state.announcement);
  return (
    <div className="tm-visually-hidden" role="status" aria-live="polite">
      {text}
    </div>
  );
}

/** On a phone: the outline and what is selected, to be read. */
function Reader({ store }: { readonly store: EditorStore }) {
  const name = useEditor((state) => documentOf(state).name);
  useValidation(store);
  useEffect(() => {
    const before = store.getState().isReadOnly;
    store.setState({ isReadOnly: true });
    return () => store.setState({ isReadOnly: before });
  }, [store]);
  return (
    <div className={classes.reader}>
      <Crumbs />
      <h1 className={classes.readerName}>{name}</h1>
      <p className="tm-dim">{t('Widen the window to edit this pipeline; here it is read-only.')}</p>
      <section className={classes.card} aria-label={t('Outline')}>
        <Outline onConnect={() => undefined} onRename={() => undefined} />
      </section>
      <section className={classes.card} aria-label={t('Inspector')}>
        <Inspector />
      </section>
      <section className={classes.card} aria-label={t('Problems')}>
        <Problems />
      </section>
    </div>
  );
}

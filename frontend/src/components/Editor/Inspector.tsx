/** What is selected: a node's form, stream and docs; an edge's columns; a note; else the settings of the pipeline. */

import { Button, Group, Select, Tabs, Textarea } from '@mantine/core';
import { IconTableImport } from '@tabler/icons-react';
import { Suspense, lazy, useEffect, useMemo, useRef, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { useRole } from '../../hooks/useSession';
import { maySubmit } from '../../model/access';
import { inputFacts } from '../../model/pipeline/catalog';
import type { Json } from '../../model/pipeline/document';
import * as operations from '../../model/pipeline/operations';
import { documentOf, typeOfNode } from '../../store/editor';
import { t } from '../../texts/t';
import { TabBar } from '../TabBar/TabBar';
import { groupSelected, removeSelected, toggleDisabled, toggleGroups } from './actions';
import { EdgePanel, StreamFacts, UnknownStream } from './EdgePanel';
import { TypeIcon, hueOf } from './icons';
import classes from './Inspector.module.css';
import { NameField } from './NameField';
import box from './NodeBox.module.css';
import { useFieldFocus, useForm } from './useForm';

const loadForm = () => import('./SchemaForm');
const loadSettings = () => import('./OperatorSettings');
const SchemaForm = lazy(async () => ({ default: (await loadForm()).SchemaForm }));
const OperatorSettings = lazy(async () => ({ default: (await loadSettings()).OperatorSettings }));
const PipelinePanel = lazy(async () => ({ default: (await import('./PipelinePanel')).PipelinePanel }));
const ReadSchema = lazy(async () => ({ default: (await import('./ReadSchema')).ReadSchema }));

export function Inspector() {
  const { nodes, edges, notes } = useEditor((state) => state.history.selection);
  const [node] = nodes;
  const [edge] = edges;
  const [note] = notes;
  // the canvas is useful without them, and they are there when a node is selected
  useEffect(() => {
    void loadForm();
    void loadSettings();
  }, []);
  const count = nodes.length + edges.length + notes.length;
  if (count > 1) return <Several nodes={nodes} count={count} />;
  if (node !== undefined) return <NodePanel key={node} id={node} />;
  if (edge !== undefined) return <EdgePanel key={edge} id={edge} />;
  if (note !== undefined) return <NotePanel key={note} id={note} />;
  return (
    <Suspense fallback={<div className={classes.inspector} />}>
      <PipelinePanel />
    </Suspense>
  );
}

function NodePanel({ id }: { readonly id: string }) {
  const store = useEditorStore();
  const node = useEditor((state) => documentOf(state).nodes[id]);
  const type = useEditor((state) => typeOfNode(state, id));
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const document = useEditor(documentOf);
  const validation = useEditor((state) => state.validation);
  const [tab, setTab] = useState<string | null>('form');
  const columns = useMemo(
    () => (port: string) =>
      (port === 'out'
        ? validation.nodes[id]?.outputs.out?.columns
        : inputFacts(document, validation, id, port)?.columns) ?? [],
    [document, validation, id],
  );
  const around = useForm(columns, id);
  const panel = useRef<HTMLDivElement>(null);
  useFieldFocus(id, panel, () => setTab('form'));
  if (node === undefined) return null;
  const set = (name: string, value: Json | undefined) =>
    store
      .getState()
      .transact(t('Changed {name}', { name: node.name }), (before) => operations.setParam(before, id, name, value), {
        mergeKey: `${id} ${name}`,
      });
  return (
    <div className={classes.inspector} ref={panel}>
      <header className={classes.head}>
        <span className={box.icon} data-hue={hueOf(type?.category ?? '')}>
          <TypeIcon name={type?.icon ?? ''} size={17} />
        </span>
        <div className={classes.titles}>
          <NameField
            key={node.name}
            label={t('Name of the node')}
            value={node.name}
            isReadOnly={isReadOnly}
            onRename={(name) =>
              store
                .getState()
                .transact(t('Renamed {old} to {name}', { old: node.name, name }), (before) =>
                  operations.renameNode(before, id, name),
                )
            }
          />
          <span className={classes.type}>{type?.title ?? node.type}</span>
        </div>
      </header>
      <Tabs value={tab} onChange={setTab} keepMounted={false}>
        <TabBar
          value={tab}
          tabs={[
            ['form', t('Form')],
            ['stream', t('Stream')],
            ['docs', t('Docs')],
          ]}
        />
        <Tabs.Panel value="form" className={classes.body ?? ''}>
          {type?.reads_schema === true && !isReadOnly && <ReadSchemaButton id={id} />}
          {type === undefined ? (
            <p className="tm-dim">
              {t(
                'The node type {type} is not installed here. Its parameters are kept, and it can be wired and moved; it cannot run.',
                { type: node.type },
              )}
            </p>
          ) : (
            <Suspense>
              <SchemaForm schema={type.schema} value={node.params} pointer="/params" around={around} onChange={set} />
            </Suspense>
          )}
          <Suspense>
            <OperatorSettings
              id={id}
              node={node}
              isParallel={type?.is_parallel ?? true}
              hasOperator={type?.has_operator ?? true}
            />
          </Suspense>
          <GroupTools nodes={[id]} />
          {!isReadOnly && (
            <Button mt="md" size="compact-sm" variant="default" onClick={() => removeSelected(store)}>
              {t('Delete the node')}
            </Button>
          )}
        </Tabs.Panel>
        <Tabs.Panel value="stream" className={classes.body ?? ''}>
          <Streams id={id} />
        </Tabs.Panel>
        <Tabs.Panel value="docs" className={classes.body ?? ''}>
          <p className={classes.summary}>{type?.summary}</p>
          <Prose text={type?.docs ?? ''} />
          {type?.examples.map(({ title, params }) => (
            <div key={title}>
              <h2 className={classes.small}>{title}</h2>
              <pre className={classes.example}>{JSON.stringify(params, null, 1)}</pre>
              {!isReadOnly && (
                <Button
                  size="compact-xs"
                  variant="default"
                  onClick={() =>
                    store
                      .getState()
                      .transact(t('Example: {title}', { title }), (before) =>
                        operations.changeNode(before, id, (old) => ({ ...old, params: { ...old.params, ...params } })),
                      )
                  }
                >
                  {t('Use this example')}
                </Button>
              )}
            </div>
          ))}
        </Tabs.Panel>
      </Tabs>
    </div>
  );
}

function ReadSchemaButton({ id }: { readonly id: string }) {
  const mayRead = maySubmit(useRole());
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button
        size="compact-sm"
        variant="default"
        className={classes.readSchema ?? ''}
        leftSection={<IconTableImport size={15} aria-hidden />}
        disabled={!mayRead}
        title={mayRead ? t('Asks what this node reads for its columns') : t('The role developer is needed')}
        onClick={() => setOpen(true)}
      >
        {t('Read schema')}
      </Button>
      {isOpen && (
        <Suspense>
          <ReadSchema id={id} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}

function Prose({ text }: { readonly text: string }) {
  // node types write Markdown; of it, code is shown as such
  const parts = text.split('`');
  return (
    <p className={classes.docs}>
      {parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}
    </p>
  );
}

function Streams({ id }: { readonly id: string }) {
  const document = useEditor(documentOf);
  const validation = useEditor((state) => state.validation);
  const state = validation.nodes[id];
  const before = inputFacts(document, validation, id);
  const edge = Object.values(document.edges).find(({ to }) => to[0] === id);
  const outputs = Object.entries(state?.outputs ?? {});
  if (outputs.length === 0) {
    return before === null || edge === undefined ? (
      <UnknownStream />
    ) : (
      <StreamFacts title={t('Comes in')} facts={before} place={edge.from} isInput />
    );
  }
  return outputs.map(([port, facts]) =>
    facts === null ? (
      <UnknownStream key={port} />
    ) : (
      <StreamFacts key={port} title={outputs.length > 1 ? port : t('Goes out')} facts={facts} place={[id, port]} />
    ),
  );
}

function NotePanel({ id }: { readonly id: string }) {
  const store = useEditorStore();
  const note = useEditor((state) => documentOf(state).layout?.notes?.[id]);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  if (note === undefined) return null;
  return (
    <div className={classes.inspector}>
      <header className={classes.head}>
        <h2 className={classes.title}>{t('Note')}</h2>
      </header>
      <div className={classes.body}>
        <Textarea
          label={t('Text')}
          autosize
          minRows={4}
          data-note
          value={note.text.join('\n')}
          readOnly={isReadOnly}
          onBlur={() => store.getState().seal()}
          onChange={(event) => {
            const text = event.currentTarget.value.split('\n');
            store
              .getState()
              .transact(t('Wrote a note'), (before) => operations.changeNote(before, id, { text }), { mergeKey: id });
          }}
        />
        <Select
          mt="sm"
          label={t('Colour')}
          size="sm"
          data={['yellow', 'blue', 'green', 'pink']}
          value={note.colour}
          allowDeselect={false}
          disabled={isReadOnly}
          onChange={(colour) =>
            store
              .getState()
              .transact(t('Coloured a note'), (before) =>
                operations.changeNote(before, id, { colour: colour ?? 'yellow' }),
              )
          }
        />
        {!isReadOnly && (
          <Button mt="md" size="compact-sm" variant="default" onClick={() => removeSelected(store)}>
            {t('Delete the note')}
          </Button>
        )}
      </div>
    </div>
  );
}

function Several({ nodes, count }: { readonly nodes: readonly string[]; readonly count: number }) {
  const store = useEditorStore();
  const isReadOnly = useEditor((state) => state.isReadOnly);
  return (
    <div className={classes.inspector}>
      <header className={classes.head}>
        <h2 className={classes.title}>{t('{count} selected', { count })}</h2>
      </header>
      {!isReadOnly && (
        <div className={classes.body}>
          <GroupTools nodes={nodes} />
          <Group gap="xs">
            {nodes.length > 0 && (
              <>
                <Button size="compact-sm" variant="default" onClick={() => groupSelected(store)}>
                  {t('Group')}
                </Button>
                <Button size="compact-sm" variant="default" onClick={() => toggleDisabled(store, nodes)}>
                  {t('Disable or enable')}
                </Button>
              </>
            )}
            <Button size="compact-sm" variant="default" onClick={() => removeSelected(store)}>
              {t('Delete')}
            </Button>
          </Group>
        </div>
      )}
    </div>
  );
}

/** The group that some of the nodes are in: its name, and what can be done with it. */
function GroupTools({ nodes }: { readonly nodes: readonly string[] }) {
  const store = useEditorStore();
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const groups = useEditor((state) => documentOf(state).layout?.groups);
  const found = Object.entries(groups ?? {}).find(([, each]) => nodes.some((id) => each.nodes.includes(id)));
  if (found === undefined || isReadOnly) return null;
  const [id, group] = found;
  return (
    <section className={classes.group} aria-label={t('Group {name}', { name: group.name })}>
      <NameField
        key={group.name}
        label={t('Name of the group')}
        isLabelled
        value={group.name}
        isReadOnly={false}
        onRename={(name) =>
          store.getState().transact(t('Renamed a group'), (before) => operations.renameGroup(before, id, name))
        }
      />
      <Group gap="xs">
        <Button
          size="compact-sm"
          variant="default"
          onClick={() => store.getState().transact(t('Ungrouped'), (before) => operations.ungroup(before, id))}
        >
          {t('Ungroup')}
        </Button>
        <Button size="compact-sm" variant="default" onClick={() => toggleGroups(store, group.nodes.slice(0, 1))}>
          {group.collapsed ? t('Expand') : t('Collapse')}
        </Button>
      </Group>
    </section>
  );
}

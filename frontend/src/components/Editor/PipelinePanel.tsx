/** The pipeline itself, where no node is selected: its settings, and what it declares for its nodes. */

import { ActionIcon, Button, Select, Tabs, Textarea } from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { type ReactNode, useMemo, useRef, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type FormSchema, type Problem, typeOf } from '../../model/pipeline/catalog';
import * as declarations from '../../model/pipeline/declarations';
import { type Json, nameOf } from '../../model/pipeline/document';
import { SETTINGS } from '../../model/pipeline/forms';
import * as operations from '../../model/pipeline/operations';
import { documentOf } from '../../store/editor';
import { t } from '../../texts/t';
import { TabBar } from '../TabBar/TabBar';
import classes from './Inspector.module.css';
import { NameField } from './NameField';
import { type FormSurroundings, SchemaForm } from './SchemaForm';
import { useFieldFocus, useForm } from './useForm';

const NO_COLUMNS = () => [];
const TABS = [
  ['settings', t('Settings')],
  ['parameters', t('Parameters')],
  ['types', t('Types')],
  ['code', t('Code')],
] as const;

type Tab = (typeof TABS)[number][0];

function tabOf(field: string): Tab {
  const [, top] = field.split('/');
  return TABS.find(([tab]) => tab === top)?.[0] ?? 'settings';
}

export function PipelinePanel() {
  const around = useForm(NO_COLUMNS, null);
  const [tab, setTab] = useState<string | null>('settings');
  const panel = useRef<HTMLDivElement>(null);
  useFieldFocus(null, panel, (field) => setTab(tabOf(field)));
  const count = (each: Tab) => around.problems.filter(({ field }) => field !== null && tabOf(field) === each);
  return (
    <div className={classes.inspector} ref={panel}>
      <header className={classes.head}>
        <h2 className={classes.title}>{t('Pipeline')}</h2>
      </header>
      <Tabs value={tab} onChange={setTab} keepMounted={false}>
        <TabBar
          value={tab}
          tabs={TABS.map(([each, label]) => [each, label, <Count key={each} problems={count(each)} />])}
        />
        <Tabs.Panel value="settings" className={classes.body ?? ''}>
          <Settings around={around} />
        </Tabs.Panel>
        <Tabs.Panel value="parameters" className={classes.body ?? ''}>
          <Parameters around={around} />
        </Tabs.Panel>
        <Tabs.Panel value="types" className={classes.body ?? ''}>
          <Types around={around} />
        </Tabs.Panel>
        <Tabs.Panel value="code" className={classes.body ?? ''}>
          <Code around={around} />
        </Tabs.Panel>
      </Tabs>
    </div>
  );
}

function Count({ problems }: { readonly problems: readonly Problem[] }) {
  if (problems.length === 0) return null;
  return (
    <span className={classes.count}>
      {problems.length}
      <span className="tm-visually-hidden"> {problems.length === 1 ? t('problem') : t('problems')}</span>
    </span>
  );
}

interface Props {
  readonly around: FormSurroundings;
}

function Settings({ around }: Props) {
  const store = useEditorStore();
  const description = useEditor((state) => documentOf(state).description);
  const settings = useEditor((state) => documentOf(state).settings);
  return (
    <>
      <Textarea
        label={t('Description')}
        autosize
        minRows={2}
        mb="md"
        value={(description ?? []).join('\n')}
        readOnly={around.isReadOnly}
        onBlur={around.onSeal}
        onChange={(event) => {
          const lines = event.currentTarget.value.split('\n');
          store.getState().transact(t('Described the pipeline'), (before) => ({ ...before, description: lines }), {
            mergeKey: 'description',
          });
        }}
      />
      <SchemaForm
        schema={SETTINGS}
        value={settings ?? {}}
        pointer="/settings"
        around={around}
        onChange={(name, value) =>
          store.getState().transact(t('Changed the settings'), (before) => operations.setSetting(before, name, value), {
            mergeKey: `settings ${name}`,
          })
        }
      />
    </>
  );
}

// --- parameters -----------------------------------------------------------------------------------------------------

const VALUES: Readonly<Record<declarations.ParameterType, FormSchema>> = {
  string: { type: ['string', 'null'] },
  long: { type: ['integer', 'null'] },
  double: { type: ['number', 'null'] },
  boolean: { type: 'boolean' },
};

function Parameters({ around }: Props) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const add = useRef<HTMLButtonElement>(null);
  const parameters = declarations.parametersOf(document);
  return (
    <>
      <p className={classes.about}>{t('Values with names. A field of a node takes one by the button at its label.')}</p>
      {parameters.map((parameter, index) => (
        <Declared
          key={index}
          what="parameter"
          name={parameter.name}
          users={declarations.usersOf(document, parameter.name)}
          isReadOnly={around.isReadOnly}
          onRemove={() => {
            const label = t('Removed the parameter {name}', { name: parameter.name });
            store.getState().transact(label, (before) => declarations.removeParameter(before, index));
            add.current?.focus();
          }}
        >
          <NameField
            key={parameter.name}
            label={t('Name')}
            isLabelled
            field={`/parameters/${index}/name`}
            value={parameter.name}
            isReadOnly={around.isReadOnly}
            refusal={(name) => declarations.nameRefusal(document, index, name)}
            onRename={(name) =>
              store
                .getState()
                .transact(t('Renamed the parameter {old} to {name}', { old: parameter.name, name }), (before) =>
                  declarations.renameParameter(before, index, name),
                )
            }
          />
          <Select
            label={t('Type')}
            size="sm"
            data={[...declarations.PARAMETER_TYPES]}
            value={parameter.type}
            allowDeselect={false}
            disabled={around.isReadOnly}
            onChange={(type) => {
              if (type === null) return;
              const label = t('Changed the type of {name}', { name: parameter.name });
              store.getState().transact(label, (before) => declarations.retypeParameter(before, index, type));
            }}
          />
          <SchemaForm
            schema={{
              properties: {
                default: { ...VALUES[parameter.type], title: t('Value') },
                help: { type: 'string', title: t('What it is for') },
              },
            }}
            value={parameter as unknown as Readonly<Record<string, Json>>}
            pointer={`/parameters/${index}`}
            around={around}
            onChange={(name, value) =>
              store
                .getState()
                .transact(
                  t('Changed the parameter {name}', { name: parameter.name }),
                  (before) => declarations.changeParameter(before, index, { [name]: value ?? null }),
                  { mergeKey: `parameter ${index} ${name}` },
                )
            }
          />
        </Declared>
      ))}
      {!around.isReadOnly && (
        <Button
          ref={add}
          size="compact-sm"
          variant="default"
          leftSection={<IconPlus size={14} aria-hidden />}
          onClick={() => {
            store.getState().transact(t('Added a parameter'), declarations.addParameter);
            store.getState().jumpTo(null, `/parameters/${parameters.length}/name`);
          }}
        >
          {t('Add parameter')}
        </Button>
      )}
    </>
  );
}

// --- types ----------------------------------------------------------------------------------------------------------

const COLUMNS: FormSchema = {
  properties: {
    columns: {
      type: 'array',
      'x-widget': 'schema',
      items: {
        type: 'array',
        prefixItems: [{ type: 'string' }, { type: 'string', format: 'type', default: 'string' }],
      },
    },
  },
};

function Types({ around }: Props) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const catalog = useEditor((state) => state.catalog);
  const add = useRef<HTMLButtonElement>(null);
  const types = useMemo(() => Object.entries(declarations.typesOf(document)), [document]);
  const lookup = (type: string) => typeOf(catalog, type);
  return (
    <>
      <p className={classes.about}>
        {t('Columns with a name, for nodes that declare columns: sources, Python and the like.')}
      </p>
      {types.map(([type, columns], index) => (
        <Declared
          key={index}
          what="type"
          name={type}
          users={declarations.typeUsersOf(document, type, lookup)}
          isReadOnly={around.isReadOnly}
          onRemove={() => {
            const label = t('Removed the type {type}', { type });
            store.getState().transact(label, (before) => declarations.removeType(before, type, lookup));
            add.current?.focus();
          }}
        >
          <NameField
            key={type}
            label={t('Name')}
            isLabelled
            field={`/types/${declarations.pointerPart(type)}`}
            value={type}
            isReadOnly={around.isReadOnly}
            refusal={(name) => declarations.typeNameRefusal(document, type, name)}
            onRename={(name) =>
              store
                .getState()
                .transact(t('Renamed the type {type} to {name}', { type, name }), (before) =>
                  declarations.renameType(before, type, name, lookup),
                )
            }
          />
          <SchemaForm
            schema={COLUMNS}
            value={{ columns }}
            pointer={`/types/${declarations.pointerPart(type)}`}
            around={around}
            onChange={(_, value) =>
              store
                .getState()
                .transact(
                  t('Changed the type {type}', { type }),
                  (before) => declarations.setTypeColumns(before, type, value ?? []),
                  { mergeKey: `type ${type}` },
                )
            }
          />
        </Declared>
      ))}
      {!around.isReadOnly && (
        <Button
          ref={add}
          size="compact-sm"
          variant="default"
          leftSection={<IconPlus size={14} aria-hidden />}
          onClick={() => {
            let name = '';
            store.getState().transact(t('Added a type'), (before) => {
              const made = declarations.addType(before);
              name = made.name;
              return made.document;
            });
            store.getState().jumpTo(null, `/types/${declarations.pointerPart(name)}`);
          }}
        >
          {t('Add type')}
        </Button>
      )}
    </>
  );
}

interface DeclaredProps {
  readonly what: string;
  readonly name: string;
  /** Ids of the nodes that use it. */
  readonly users: readonly string[];
  readonly isReadOnly: boolean;
  readonly onRemove: () => void;
  readonly children: ReactNode;
}

/** One declaration, with the nodes that use it. */
function Declared({ what, name, users, isReadOnly, onRemove, children }: DeclaredProps) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  return (
    <section className={classes.declared} aria-label={t('The {what} {name}', { what, name })}>
      {!isReadOnly && (
        <ActionIcon
          size="sm"
          variant="subtle"
          color="gray"
          className={classes.removeDeclared ?? ''}
          title={
            users.length === 0
              ? t('Remove the {what}', { what })
              : t('Remove the {what}; the nodes keep what it stands for', { what })
          }
          aria-label={t('Remove the {what} {name}', { what, name })}
          onClick={onRemove}
        >
          <IconTrash size={15} aria-hidden />
        </ActionIcon>
      )}
      {children}
      <div className={classes.users}>
        {users.length === 0 ? t('No node uses it.') : t('Used by ')}
        {users.map((id, index) => (
          <span key={id}>
            {index > 0 && ', '}
            <button type="button" className="tm-link" onClick={() => store.getState().jumpTo(id)}>
              {nameOf(document, id)}
            </button>
          </span>
        ))}
      </div>
    </section>
  );
}

// --- shared Python --------------------------------------------------------------------------------------------------

const CODE: FormSchema = {
  properties: { code: { type: 'array', 'x-widget': 'python', title: t('Shared Python') } },
};

function Code({ around }: Props) {
  const store = useEditorStore();
  const code = useEditor((state) => documentOf(state).code);
  return (
    <>
      <p className={classes.about}>
        {t('It stands at the top of the program: imports, functions and classes that several nodes use.')}
      </p>
      <div className={classes.shared}>
        <SchemaForm
          schema={CODE}
          value={{ code: code ?? [] }}
          pointer=""
          around={around}
          onChange={(_, value) =>
            store
              .getState()
              .transact(
                t('Changed the shared Python'),
                (before) => declarations.setCode(before, (value ?? []) as readonly string[]),
                { mergeKey: 'code' },
              )
          }
        />
      </div>
    </>
  );
}

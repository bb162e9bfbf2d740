/** Fields whose value comes from the pipeline: a parameter in place of a value, and a declared type in place of columns. */

import { ActionIcon, Button, Menu, Select, TextInput, Tooltip } from '@mantine/core';
import { IconVariable, IconX } from '@tabler/icons-react';
import type { ComponentProps, ReactNode } from 'react';

import { useEditorStore } from '../../hooks/useEditor';
import { type DeclaredColumn, type Parameter, pointerPart } from '../../model/pipeline/declarations';
import type { Json } from '../../model/pipeline/document';
import { t } from '../../texts/t';
import classes from './SchemaForm.module.css';

interface ReferenceProps {
  /** Label, description, error and the like. */
  readonly common: Omit<ComponentProps<typeof TextInput>, 'value' | 'onChange' | 'readOnly'>;
  readonly name: string;
  /** Undefined: the pipeline has none of this name. */
  readonly parameter: Parameter | undefined;
  readonly onValue: (value: Json | undefined) => void;
}

/** A field that a parameter of the pipeline stands in. */
export function ReferenceField({ common, name, parameter, onValue }: ReferenceProps) {
  const value = parameter?.default ?? null;
  const said =
    parameter === undefined ? t('there is no such parameter') : value === null ? t('no value') : String(value);
  return (
    <TextInput
      {...common}
      readOnly
      value={`${name} = ${said}`}
      leftSection={<IconVariable size={15} aria-hidden />}
      rightSection={
        common.disabled !== true && (
          <Tooltip label={t('Use a value of its own')}>
            <ActionIcon
              size="sm"
              variant="subtle"
              color="gray"
              aria-label={t('Use a value in place of {name}', { name })}
              onClick={() => onValue(value ?? undefined)}
            >
              <IconX size={14} aria-hidden />
            </ActionIcon>
          </Tooltip>
        )
      }
    />
  );
}

interface BindProps {
  readonly title: string;
  readonly parameters: readonly Parameter[];
  readonly onChoose: (name: string) => void;
  readonly children: ReactNode;
}

/** A field with a menu of the parameters that may stand in it. */
export function Bindable({ title, parameters, onChoose, children }: BindProps) {
  return (
    <div className={classes.bindable}>
      {children}
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon
            size="xs"
            variant="subtle"
            color="gray"
            className={classes.bind ?? ''}
            title={t('Use a parameter of the pipeline')}
            aria-label={t('Use a parameter for {title}', { title })}
          >
            <IconVariable size={14} aria-hidden />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {parameters.map((parameter) => (
            <Menu.Item key={parameter.name} onClick={() => onChoose(parameter.name)}>
              {parameter.name}{' '}
              <span className="tm-dim">{parameter.default === null ? parameter.type : String(parameter.default)}</span>
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}

const OWN = 'own';

interface TypedProps {
  readonly common: Omit<ComponentProps<typeof Select>, 'data' | 'value' | 'onChange'>;
  readonly value: Json | undefined;
  readonly types: Readonly<Record<string, readonly DeclaredColumn[]>>;
  readonly onChange: (value: Json) => void;
  /** The list of the columns of its own. */
  readonly children: ReactNode;
}

/** Columns of a node's own, or those of a type that the pipeline declares. */
export function TypedColumns({ common, value, types, onChange, children }: TypedProps) {
  const store = useEditorStore();
  const chosen = typeof value === 'string' ? value : null;
  const columns = chosen === null || !Object.hasOwn(types, chosen) ? null : types[chosen];
  const names = Object.keys(types);
  const listed = chosen === null || names.includes(chosen) ? names : [...names, chosen];
  const named = listed.map((name) => ({ value: `type ${name}`, label: name }));
  return (
    <div className={classes.typed}>
      <Select
        {...common}
        data={[
          { group: t('Columns of'), items: [{ value: OWN, label: t('this node alone') }] },
          { group: t('Types of the pipeline'), items: named },
        ]}
        value={chosen === null ? OWN : `type ${chosen}`}
        allowDeselect={false}
        onChange={(next) => {
          if (next === OWN) onChange(columns ?? []);
          else if (typeof next === 'string') onChange(next.slice('type '.length));
        }}
      />
      {chosen === null ? (
        children
      ) : (
        <div className={classes.typeColumns}>
          {columns?.map(([name, type], index) => (
            <span key={index} className={classes.typeColumn}>
              {name} <span className="tm-dim">{type}</span>
            </span>
          ))}
          {columns !== null && (
            <Button
              size="compact-xs"
              variant="subtle"
              onClick={() => store.getState().jumpTo(null, `/types/${pointerPart(chosen)}/columns`)}
            >
              {t('Go to the type')}
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

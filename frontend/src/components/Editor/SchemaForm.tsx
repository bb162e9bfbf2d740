/**
 * A form from the JSON Schema of a node type. The schemas use a closed part of JSON Schema (see `FormSchema`); the server
 * checks the values, so there is no second validator here: what it finds is shown at the fields it names.
 */

import {
  ActionIcon,
  Autocomplete,
  Button,
  NumberInput,
  SegmentedControl,
  Select,
  Switch,
  TagsInput,
  TextInput,
  Textarea,
} from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconPlus, IconX } from '@tabler/icons-react';
import { type ReactNode, Suspense, createContext, lazy, useContext, useId, useMemo, useRef, useState } from 'react';

import type { Column, FormSchema, Problem, SqlFunction } from '../../model/pipeline/catalog';
import { defaultParams } from '../../model/pipeline/catalog';
import {
  type DeclaredColumn,
  type Parameter,
  REFERENCE,
  fitting,
  isTypeField,
  referred,
} from '../../model/pipeline/declarations';
import type { Json } from '../../model/pipeline/document';
import { chosenBranch, codeProblems, fieldTitle, isMissing, kindOf, problemAt } from '../../model/pipeline/forms';
import { t } from '../../texts/t';
import { ConnectionField } from './ConnectionField';
import { Bindable, ReferenceField, TypedColumns } from './DeclaredFields';
import classes from './SchemaForm.module.css';
import { WindowPicture } from './WindowPicture';

const CodeEditor = lazy(async () => ({ default: (await import('./CodeEditor')).CodeEditor }));

export interface FormSurroundings {
  readonly columns: (port: string) => readonly Column[];
  readonly functions: readonly SqlFunction[];
  readonly problems: readonly Problem[];
  readonly isReadOnly: boolean;
  /** Of the pipeline, that may stand in place of values; none where they may not. */
  readonly parameters: readonly Parameter[];
  /** Columns of the types that the pipeline declares. */
  readonly types: Readonly<Record<string, readonly DeclaredColumn[]>>;
  /** The line of the Python to go to and to mark, from 1, by another object each time; null: none. */
  readonly place: { readonly line: number | null } | null;
  /** Ends a step of the history: a field has lost the focus. */
  readonly onSeal: () => void;
  /** What branches that are not chosen held, by pointer: choosing them again brings it back. */
  readonly remembered: Map<string, Json>;
}

const Surroundings = createContext<FormSurroundings | null>(null);

function useSurroundings(): FormSurroundings {
  const found = useContext(Surroundings);
  if (found === null) throw new Error('there is no form around this field');
  return found;
}

interface FieldProps {
  readonly schema: FormSchema;
  readonly value: Json | undefined;
  readonly pointer: string;
  readonly name: string;
  readonly isRequired?: boolean;
  /** No label: the row or the box around it says what it is. */
  readonly isBare?: boolean;
  readonly onChange: (value: Json | undefined) => void;
}

interface Props {
  readonly schema: FormSchema;
  readonly value: Readonly<Record<string, Json>>;
  readonly pointer: string;
  readonly around: FormSurroundings;
  readonly onChange: (name: string, value: Json | undefined) => void;
}

export function SchemaForm({ schema, value, pointer, around, onChange }: Props) {
  return (
    <Surroundings value={around}>
      <div className={classes.form}>
        {Object.entries(schema.properties ?? {}).map(([name, part]) => (
          <Field
            key={name}
            schema={part}
            value={Object.hasOwn(value, name) ? value[name] : undefined}
            pointer={`${pointer}/${name}`}
            name={name}
            isRequired={schema.required?.includes(name) === true}
            onChange={(changed) => onChange(name, changed)}
          />
        ))}
      </div>
    </Surroundings>
  );
}

function Field(props: FieldProps): ReactNode {
  const { schema, value, name, isBare = false, onChange } = props;
  const { parameters, isReadOnly, onSeal } = useSurroundings();
  const parameter = referred(value);
  if (parameter !== null) return <ParameterField {...props} parameter={parameter} />;
  const choices = isBare || isReadOnly ? [] : fitting(schema, parameters);
  if (choices.length === 0) return <OwnField {...props} />;
  return (
    <Bindable
      title={fieldTitle(schema, name)}
      parameters={choices}
      onChoose={(chosen) => {
        // a step of its own, whatever was typed before
        onSeal();
        onChange({ [REFERENCE]: chosen });
        onSeal();
      }}
    >
      <OwnField {...props} />
    </Bindable>
  );
}

function ParameterField({ parameter: name, ...props }: FieldProps & { readonly parameter: string }) {
  const { schema, onChange } = props;
  const { parameters, onSeal } = useSurroundings();
  const { common } = useField(props);
  return (
    <ReferenceField
      common={common}
      name={name}
      parameter={parameters.find((each) => each.name === name)}
      onValue={(value) => {
        onSeal();
        onChange(value ?? schema.default);
        onSeal();
      }}
    />
  );
}

/** A field with a value of its own. */
function OwnField(props: FieldProps): ReactNode {
  const { schema } = props;
  switch (schema['x-widget']) {
    case 'schema':
      return <ColumnTypesField {...props} />;
    case 'sql':
      return <SqlField {...props} />;
    case 'python':
      return <PythonField {...props} />;
    case 'column':
      return <ColumnField {...props} />;
    case 'columns':
      return <ColumnsField {...props} />;
    case 'grid':
      return <RowsField {...props} />;
    case 'connection':
      return <NamedConnection {...props} />;
    default:
  }
  if (schema.oneOf !== undefined) return <ChoiceField {...props} branches={schema.oneOf} />;
  if (schema.enum !== undefined) return <EnumField {...props} values={schema.enum} />;
  switch (kindOf(schema)) {
    case 'boolean':
      return <SwitchField {...props} />;
    case 'integer':
    case 'number':
      return <NumberField {...props} />;
    case 'array':
      return <ListField {...props} />;
    case 'object':
      return <ObjectField {...props} />;
    default:
      return <TextField {...props} />;
  }
}

/** Label, description and error of a field, and how the inspector finds it when a problem is clicked. */
function useField({ schema, pointer, name, isRequired = false, isBare = false }: FieldProps) {
  const { problems, isReadOnly, onSeal } = useSurroundings();
  const problem = problemAt(problems, pointer);
  const title = fieldTitle(schema, name);
  const error = problem === null ? null : problem.severity === 'incomplete' ? null : problem.message;
  return {
    title,
    problem,
    common: {
      ...(isBare ? { 'aria-label': title } : { label: title, withAsterisk: isRequired }),
      ...(schema.description === undefined || isBare ? {} : { description: schema.description }),
      error,
      size: 'sm' as const,
      disabled: isReadOnly,
      'data-field': pointer,
      onBlur: onSeal,
    },
  };
}

function TextField(props: FieldProps) {
  const { schema, value, onChange } = props;
  const { common } = useField(props);
  const isDuration = schema['x-widget'] === 'duration' || schema.format === 'duration';
  const placeholder = isDuration ? t('for example 10 s') : schema.format === 'type' ? 'string' : '';
  if (schema.format === 'type') {
    return (
      <Autocomplete
        {...common}
        data={['string', 'long', 'int', 'double', 'boolean', 'sql_timestamp', 'instant', 'sql_date', 'bytes']}
        value={typeof value === 'string' ? value : ''}
        placeholder={placeholder}
        onChange={onChange}
      />
    );
  }
  return (
    <TextInput
      {...common}
      value={typeof value === 'string' ? value : ''}
      placeholder={placeholder}
      onChange={(event) => {
        const text = event.currentTarget.value;
        onChange(text === '' && isMissing(schema) ? null : text);
      }}
    />
  );
}

function NumberField(props: FieldProps) {
  const { schema, value, onChange } = props;
  const { common } = useField(props);
  const isNullable = isMissing(schema);
  return (
    <NumberInput
      {...common}
      value={typeof value === 'number' ? value : ''}
      placeholder={isNullable ? t('not set') : ''}
      allowDecimal={kindOf(schema) === 'number'}
      thousandSeparator=" "
      {...(schema.minimum === undefined ? {} : { min: schema.minimum })}
      {...(schema.maximum === undefined ? {} : { max: schema.maximum })}
      clampBehavior="none"
      hideControls
      onChange={(changed) => onChange(typeof changed === 'number' ? changed : isNullable ? null : undefined)}
    />
  );
}

function SwitchField(props: FieldProps) {
  const { value, schema, onChange } = props;
  const { common } = useField(props);
  const { error, ...rest } = common;
  return (
    <Switch
      {...rest}
      error={error}
      checked={(value ?? schema.default) === true}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}

const FEW = 4;

function EnumField({ values, ...props }: FieldProps & { readonly values: readonly Json[] }) {
  const { value, schema, isBare = false, onChange } = props;
  const { common, title } = useField(props);
  const texts = values.map(textOf);
  const current = textOf(value ?? schema.default);
  if (!isBare && texts.length <= FEW && texts.join('').length < 30) {
    return (
      <div className={classes.labelled} data-field={common['data-field']}>
        <span className={classes.label}>{title}</span>
        <SegmentedControl
          size="xs"
          fullWidth
          aria-label={title}
          data={texts}
          value={current}
          disabled={common.disabled}
          onChange={onChange}
        />
      </div>
    );
  }
  return (
    <Select
      {...common}
      data={texts}
      value={current === '' ? null : current}
      allowDeselect={false}
      onChange={(chosen) => {
        if (chosen !== null) onChange(chosen);
      }}
    />
  );
}

function ColumnField(props: FieldProps) {
  const { schema, value, onChange } = props;
  const { columns } = useSurroundings();
  const { common } = useField(props);
  const known = columns(schema['x-port'] ?? 'in');
  const types = new Map(known.map(({ name, type }) => [name, type]));
  return (
    <Autocomplete
      {...common}
      data={[...types.keys()]}
      value={typeof value === 'string' ? value : ''}
      placeholder={t('column')}
      onChange={onChange}
      renderOption={({ option }) => (
        <span className={classes.option}>
          {option.value} <span className="tm-dim">{types.get(option.value)}</span>
        </span>
      )}
    />
  );
}

function NamedConnection(props: FieldProps) {
  const { value, onChange } = props;
  const { common } = useField(props);
  return <ConnectionField common={common} value={typeof value === 'string' ? value : ''} onChange={onChange} />;
}

function ColumnsField(props: FieldProps) {
  const { schema, value, onChange } = props;
  const { columns } = useSurroundings();
  const { common } = useField(props);
  const known = columns(schema['x-port'] ?? 'in').map(({ name }) => name);
  return (
    <TagsInput
      {...common}
      data={known}
      value={Array.isArray(value) ? value.map(String) : []}
      placeholder={Array.isArray(value) && value.length > 0 ? '' : t('columns')}
      onChange={onChange}
    />
  );
}

function SqlField(props: FieldProps) {
  const { value, schema, pointer, onChange, isBare = false } = props;
  const { columns, functions, isReadOnly, onSeal } = useSurroundings();
  const { title, problem, common } = useField(props);
  const text = typeof value === 'string' ? value : '';
  const marks =
    problem?.span === null || problem === null
      ? []
      : [{ from: problem.span[0], to: problem.span[1], message: problem.message, severity: 'error' as const }];
  return (
    <div className={classes.labelled} data-field={pointer}>
      {!isBare && <span className={classes.label}>{title}</span>}
      <Suspense fallback={<TextInput value={text} readOnly aria-label={title} size="sm" />}>
        <CodeEditor
          value={text}
          language="sql"
          label={title}
          isLine
          isReadOnly={isReadOnly}
          columns={columns(schema['x-port'] ?? 'in')}
          functions={functions}
          takesAggregates={schema['x-aggregates'] === true}
          placeholder={t('SQL')}
          problems={marks}
          onChange={onChange}
          onBlur={onSeal}
        />
      </Suspense>
      {common.error !== null && <span className={classes.error}>{common.error}</span>}
      {problem !== null && problem.hint !== '' && <span className={classes.hint}>{problem.hint}</span>}
    </div>
  );
}

function PythonField(props: FieldProps) {
  const { value, schema, pointer, onChange } = props;
  const { columns, problems, isReadOnly, place, onSeal } = useSurroundings();
  const { title } = useField(props);
  const marked = useMemo(() => {
    const line = place?.line ?? null;
    return line === null ? [] : [[line, line] as const];
  }, [place]);
  const lines = Array.isArray(value) ? value : Array.isArray(schema.default) ? schema.default : [];
  const text = lines.join('\n');
  const found = useMemo(() => codeProblems(problems, pointer, text.split('\n')), [problems, pointer, text]);
  return (
    <div className={classes.labelled} data-field={pointer}>
      <span className={classes.label}>{title}</span>
      <div className={classes.python}>
        <Suspense fallback={<pre>{text}</pre>}>
          <CodeEditor
            value={text}
            language="python"
            label={title}
            isReadOnly={isReadOnly}
            columns={columns('in')}
            problems={found.marks}
            marked={marked}
            onChange={(changed) => onChange(changed.split(/\r?\n/))}
            onBlur={onSeal}
          />
        </Suspense>
      </div>
      {found.worst !== null && found.worst.severity !== 'incomplete' && (
        <span className={classes.error}>{found.worst.message}</span>
      )}
      {found.worst !== null && found.worst.hint !== '' && <span className={classes.hint}>{found.worst.hint}</span>}
    </div>
  );
}

/** Rows as JSON, one a line; what cannot be read stays in the field and out of the document. */
function RowsField(props: FieldProps) {
  const { value, onChange } = props;
  const { common } = useField(props);
  const shown = Array.isArray(value) ? value.map((row) => JSON.stringify(row)).join('\n') : '';
  const [typed, setTyped] = useState<{ readonly text: string; readonly of: string } | null>(null);
  const text = typed?.of === shown ? typed.text : shown;
  const [wrong, setWrong] = useState<string | null>(null);
  return (
    <Textarea
      {...common}
      description={t('One row a line, as JSON: a list in the order of the columns, or an object.')}
      autosize
      minRows={3}
      maxRows={12}
      value={text}
      error={wrong ?? common.error}
      classNames={{ input: 'tm-mono' }}
      onChange={(event) => {
        const changed = event.currentTarget.value;
        const lines = changed.split('\n').filter((line) => line.trim() !== '');
        try {
          const rows = lines.map((line) => JSON.parse(line) as Json);
          setWrong(null);
          setTyped({ text: changed, of: rows.map((row) => JSON.stringify(row)).join('\n') });
          onChange(rows);
        } catch {
          setWrong(t('A line is not JSON yet'));
          setTyped({ text: changed, of: shown });
        }
      }}
    />
  );
}

/** One of several forms, by their field "kind"; or nothing. */
function ChoiceField({ branches, ...props }: FieldProps & { readonly branches: readonly FormSchema[] }) {
  const { value, schema, pointer, onChange } = props;
  const { remembered, isReadOnly } = useSurroundings();
  const { title, common, problem } = useField(props);
  const current = value === undefined ? schema.default : value;
  const chosen = chosenBranch(branches, current);
  const nameOf = (branch: FormSchema) =>
    branch.type === 'null' ? 'none' : textOf(branch.properties?.kind?.const ?? branch.title ?? 'given');
  const names = branches.map(nameOf);
  const branch = branches[chosen];
  const object = objectOf(current);
  const choose = (name: string | null) => {
    const next = branches[names.indexOf(name ?? '')];
    if (next === undefined) return;
    if (current !== undefined) remembered.set(`${pointer} ${names[chosen] ?? ''}`, current);
    const known = remembered.get(`${pointer} ${name ?? ''}`);
    if (known !== undefined) onChange(known);
    else if (next.type === 'null') onChange(null);
    else {
      const kind = next.properties?.kind?.const;
      onChange({ ...(kind === undefined ? {} : { kind }), ...defaultParams(next) });
    }
  };
  const fields = Object.entries(branch?.properties ?? {}).filter(([, part]) => part.const === undefined);
  return (
    <fieldset className={classes.choice} data-field={pointer}>
      <legend className="tm-visually-hidden">{title}</legend>
      <Select
        label={props.isBare === true ? undefined : title}
        aria-label={title}
        size="sm"
        data={names}
        value={names[chosen] ?? null}
        placeholder={t('Choose')}
        disabled={isReadOnly}
        allowDeselect={false}
        error={fields.length === 0 || problem?.field === pointer ? common.error : null}
        onChange={choose}
      />
      {schema['x-widget'] === 'window' && <WindowPicture window={object} />}
      {fields.length > 0 && (
        <div className={classes.inner}>
          {fields.map(([name, part]) => (
            <Field
              key={name}
              schema={part}
              value={Object.hasOwn(object, name) ? object[name] : undefined}
              pointer={`${pointer}/${name}`}
              name={name}
              isRequired={branch?.required?.includes(name) === true}
              onChange={(changed) => onChange(withMember(object, name, changed))}
            />
          ))}
        </div>
      )}
    </fieldset>
  );
}

function ObjectField(props: FieldProps) {
  const { schema, value, pointer, onChange, isBare = false } = props;
  const { title } = useField(props);
  const object = objectOf(value);
  return (
    <fieldset className={classes.choice} data-field={pointer}>
      <legend className={isBare ? 'tm-visually-hidden' : (classes.label ?? '')}>{title}</legend>
      <div className={isBare ? classes.bareObject : classes.inner}>
        {Object.entries(schema.properties ?? {}).map(([name, part]) => (
          <Field
            key={name}
            schema={part}
            value={Object.hasOwn(object, name) ? object[name] : undefined}
            pointer={`${pointer}/${name}`}
            name={name}
            onChange={(changed) => onChange(withMember(object, name, changed))}
          />
        ))}
      </div>
    </fieldset>
  );
}

function objectOf(value: Json | undefined): Readonly<Record<string, Json>> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Readonly<Record<string, Json>>) : {};
}

function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function withMember(object: Readonly<Record<string, Json>>, name: string, value: Json | undefined): Json {
  if (value !== undefined) return { ...object, [name]: value };
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
}

const HEADINGS: Readonly<Record<string, readonly [string, string]>> = {
  'columns-sql': [t('Name'), t('Expression')],
  aggregates: [t('Name'), t('Aggregate')],
  branches: [t('Output'), t('Condition')],
  schema: [t('Column'), t('Type')],
  renames: [t('Column'), t('New name')],
  casts: [t('Column'), t('New type')],
  generators: [t('Column'), t('Values')],
};

/** Columns with their types; where the pipeline declares types, these by name, too. */
function ColumnTypesField(props: FieldProps) {
  const { schema, value, onChange } = props;
  const { types, onSeal } = useSurroundings();
  const { common } = useField(props);
  if (!isTypeField(schema) || (typeof value !== 'string' && Object.keys(types).length === 0))
    return <ListField {...props} />;
  return (
    <TypedColumns
      common={typeof value === 'string' ? common : { ...common, error: null }}
      value={value}
      types={types}
      onChange={(changed) => {
        onSeal();
        onChange(changed);
        onSeal();
      }}
    >
      <ListField {...props} isBare />
    </TypedColumns>
  );
}

/** A list of values, or of pairs: one line each. */
function ListField(props: FieldProps) {
  const { schema, value, pointer, isBare = false, onChange } = props;
  const { isReadOnly, onSeal } = useSurroundings();
  const { title, common, problem } = useField(props);
  const id = useId();
  const addition = useRef<HTMLButtonElement>(null);
  const items = Array.isArray(value) ? (value as readonly Json[]) : [];
  const item = typeof schema.items === 'object' ? schema.items : {};
  const pair = item.prefixItems ?? null;
  const headings = HEADINGS[schema['x-widget'] ?? ''] ?? null;
  const put = (index: number, changed: Json) => onChange(items.map((old, each) => (each === index ? changed : old)));
  const swap = (index: number, other: number) => {
    const moved = [...items];
    [moved[index], moved[other]] = [moved[other] ?? null, moved[index] ?? null];
    onChange(moved);
    onSeal();
  };
  const fresh = (): Json => {
    if (pair !== null) return pair.map(emptyOf);
    return emptyOf(item);
  };
  return (
    <div className={classes.labelled} data-field={pointer} role="group" aria-labelledby={id}>
      <span className={isBare ? 'tm-visually-hidden' : classes.label} id={id}>
        {title}
      </span>
      {headings !== null && items.length > 0 && (
        <div className={classes.headings} aria-hidden>
          <span>{headings[0]}</span>
          <span>{headings[1]}</span>
        </div>
      )}
      {items.map((each, index) => (
        // a line has no identity of its own
        <div key={index} className={classes.line}>
          {pair === null ? (
            <Field
              schema={item}
              value={each}
              pointer={`${pointer}/${index}`}
              name={`${title} ${index + 1}`}
              isBare
              onChange={(changed) => put(index, changed ?? null)}
            />
          ) : (
            pair.map((part, place) => (
              <div key={place} className={classes.cell}>
                <Field
                  schema={part}
                  value={Array.isArray(each) ? (each as readonly Json[])[place] : undefined}
                  pointer={`${pointer}/${index}/${place}`}
                  name={`${headings?.[place] ?? title} ${index + 1}`}
                  isBare
                  onChange={(changed) => {
                    const old = Array.isArray(each) ? (each as readonly Json[]) : [];
                    put(
                      index,
                      pair.map((_, other) => (other === place ? (changed ?? null) : (old[other] ?? null))),
                    );
                  }}
                />
              </div>
            ))
          )}
          {!isReadOnly && (
            <div className={classes.tools}>
              <LineTool
                label={t('Move {index} up', { index: index + 1 })}
                isOff={index === 0}
                onClick={() => swap(index, index - 1)}
              >
                <IconArrowUp size={13} aria-hidden />
              </LineTool>
              <LineTool
                label={t('Move {index} down', { index: index + 1 })}
                isOff={index === items.length - 1}
                onClick={() => swap(index, index + 1)}
              >
                <IconArrowDown size={13} aria-hidden />
              </LineTool>
              <LineTool
                label={t('Remove {index}', { index: index + 1 })}
                onClick={() => {
                  onChange(items.filter((_, other) => other !== index));
                  onSeal();
                  // the button goes with its line, and must not take the focus with it
                  addition.current?.focus();
                }}
              >
                <IconX size={14} aria-hidden />
              </LineTool>
            </div>
          )}
        </div>
      ))}
      {!isReadOnly && (
        <Button
          size="compact-xs"
          variant="subtle"
          ref={addition}
          leftSection={<IconPlus size={13} aria-hidden />}
          className={classes.add ?? ''}
          onClick={() => {
            onChange([...items, fresh()]);
            onSeal();
          }}
        >
          {t('Add {headings}', { headings: (headings?.[0] ?? singular(title)).toLowerCase() })}
        </Button>
      )}
      {problem?.field === pointer && common.error !== null && <span className={classes.error}>{common.error}</span>}
    </div>
  );
}

function singular(title: string): string {
  return title.replace(/s$/, '');
}

function emptyOf(schema: FormSchema): Json {
  if (schema.default !== undefined) return schema.default;
  const [branch] = schema.oneOf ?? [];
  if (branch !== undefined) {
    const kind = branch.properties?.kind?.const;
    return { ...(kind === undefined ? {} : { kind }), ...defaultParams(branch) };
  }
  if (schema.enum !== undefined) return schema.enum[0] ?? '';
  const kind = kindOf(schema);
  if (kind === 'object') return defaultParams(schema);
  if (kind === 'array') return [];
  return kind === 'boolean' ? false : kind === 'integer' || kind === 'number' ? 0 : '';
}

interface LineToolProps {
  readonly label: string;
  readonly isOff?: boolean;
  readonly onClick: () => void;
  readonly children: ReactNode;
}

function LineTool({ label, isOff = false, onClick, children }: LineToolProps) {
  return (
    <ActionIcon size="xs" variant="subtle" color="gray" aria-label={label} disabled={isOff} onClick={onClick}>
      {children}
    </ActionIcon>
  );
}

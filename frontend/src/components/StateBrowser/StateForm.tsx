/** Chooses an operator, a state and a key, and shows what was there. */

import { Button, Select, Text, TextInput, Tooltip } from '@mantine/core';
import { IconKey, IconSearch } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type SyntheticEvent, useState } from 'react';

import { type StatePlace, type WantedKey, fetchFirstKeys, lookUp } from '../../api/state';
import type { KeyField, StateOperator } from '../../gen/contract';
import { useQueryParam } from '../../hooks/useQueryParam';
import { useRole } from '../../hooks/useSession';
import { mayOperate } from '../../model/access';
import { formatBytes } from '../../model/format';
import { KEY_TYPES, exampleOf, inputOf, keyOf, nameOfKey } from '../../model/stateBrowser';
import { t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';
import { ExportCsv } from './ExportCsv';
import { FoundState } from './FoundState';
import classes from './StateBrowser.module.css';

interface Props {
  readonly jobId: string;
  /** Location of the snapshot; empty: the newest checkpoint. */
  readonly snapshot: string;
  readonly operators: readonly StateOperator[];
}

interface Look {
  readonly at: StatePlace;
  readonly key: WantedKey;
}

function isSame(one: StatePlace, other: StatePlace): boolean {
  return one.snapshot === other.snapshot && one.operator === other.operator && one.state === other.state;
}

export function StateForm({ jobId, snapshot, operators }: Props) {
  // a link has no key: keys may be personal, and addresses end up in logs
  const [chosen, choose] = useQueryParam('state');
  const [chosenOperator = '', ...names] = chosen?.split('/') ?? [];
  const operator = operators.find(({ id }) => id === chosenOperator) ?? operators[0];
  const operatorId = operator?.id ?? '';
  const states = operator?.states ?? [];
  const state = states.find(({ name }) => name === names.join('/')) ?? states[0];
  const isAllowed = mayOperate(useRole());
  const place: StatePlace = { snapshot, operator: operatorId, state: state?.name ?? '' };
  const look = useMutation({ mutationFn: ({ at, key }: Look) => lookUp(jobId, at, key) });
  const keys = useMutation({ mutationFn: (at: StatePlace) => fetchFirstKeys(jobId, at) });
  // a link, Back, or another snapshot leads elsewhere: what was found is not of there
  const isOfLook = look.variables !== undefined && isSame(look.variables.at, place);
  const isOfKeys = keys.variables !== undefined && isSame(keys.variables, place);
  const forget = () => {
    look.reset();
    keys.reset();
  };
  return (
    <>
      <Panel title={t('Look Up a Key')}>
        <div className={classes.form}>
          <Select
            label={t('Operator')}
            allowDeselect={false}
            data={operators.map(({ id, name, size }) => ({ value: id, label: `${name} · ${formatBytes(size)}` }))}
            value={operatorId}
            onChange={(id) => {
              choose(id);
              forget();
            }}
          />
          <Select
            label={t('State')}
            description={
              state === undefined ? undefined : `${state.kind}${state.has_ttl ? t(' with TTL') : ''}: ${state.type}`
            }
            inputWrapperOrder={['label', 'input', 'description']}
            allowDeselect={false}
            data={states.map(({ name }) => name)}
            value={state?.name ?? null}
            onChange={(name) => {
              choose(`${operatorId}/${name ?? ''}`);
              forget();
            }}
          />
        </div>
        {operator !== undefined && state === undefined && (
          <Text size="sm" c="dimmed" mt="sm">
            {operator.states === null
              ? t('The snapshot does not say which states this operator has: an earlier version has written it.')
              : t('This operator has timers, but no state.')}
          </Text>
        )}
        {state?.is_pickled === true && (
          <Text size="sm" c="dimmed" mt="sm">
            {t(
              'Its values are pickled. They are not decoded, as that would run code from the snapshot; declare a type to see them.',
            )}
          </Text>
        )}
        {operator !== undefined && state !== undefined && (
          <KeyForm
            key={`${operatorId} ${state.name}`}
            fields={operator.key_fields}
            isAllowed={isAllowed}
            isBusy={look.isPending && isOfLook}
            onLook={(key) => look.mutate({ at: place, key })}
            onKeys={() => keys.mutate(place)}
            isListing={keys.isPending && isOfKeys}
          />
        )}
      </Panel>
      {isOfKeys && keys.error !== null && (
        <FailureState title={t('The keys cannot be listed')} message={keys.error.message} />
      )}
      {isOfKeys && keys.data !== undefined && (
        <Panel title={t('Some Keys')}>
          <p className={classes.asOf} role="status">
            {keys.data.keys.length === 0 &&
              (keys.data.is_all ? t('No key has this state.') : t('No key was found in time.'))}
            {keys.data.keys.length > 0 &&
              (keys.data.is_all ? t('All keys that have this state') : t('There are more keys'))}
          </p>
          <ul className={classes.keys}>
            {keys.data.keys.map(({ key, encoded_key }) => (
              <li key={encoded_key}>
                <Button
                  size="compact-sm"
                  variant="default"
                  className="tm-mono"
                  onClick={() => look.mutate({ at: place, key: { encoded_key } })}
                >
                  {nameOfKey(key)}
                </Button>
              </li>
            ))}
          </ul>
          {keys.data.keys.length > 0 && <ExportCsv jobId={jobId} place={place} wanted={null} />}
        </Panel>
      )}
      {isOfLook && look.error !== null && (
        <FailureState title={t('The key was not looked up')} message={look.error.message} />
      )}
      {isOfLook && look.data !== undefined && operator !== undefined && state !== undefined && (
        <FoundState jobId={jobId} place={place} found={look.data} operator={operator} state={state} />
      )}
    </>
  );
}

interface KeyFormProps {
  readonly fields: readonly KeyField[];
  readonly isAllowed: boolean;
  readonly isBusy: boolean;
  readonly isListing: boolean;
  readonly onLook: (key: WantedKey) => void;
  readonly onKeys: () => void;
}

function KeyForm({ fields, isAllowed, isBusy, isListing, onLook, onKeys }: KeyFormProps) {
  const [type, setType] = useState<string>(KEY_TYPES[0]);
  const typed = fields.length > 0 ? fields : [{ name: '', type }];
  const [texts, setTexts] = useState<readonly string[]>([]);
  const [problems, setProblems] = useState<readonly (string | null)[]>([]);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    const found = keyOf(typed, texts);
    setProblems('problems' in found ? found.problems : []);
    if ('key' in found) onLook(fields.length > 0 ? found : { ...found, key_type: type });
  };
  const change = (index: number, text: string) =>
    setTexts((old) => typed.map((_, each) => (each === index ? text : (old[each] ?? ''))));
  return (
    <form className={classes.form} onSubmit={submit} aria-label={t('Key')}>
      {fields.length === 0 && (
        <Select
          label={t('Key Type')}
          description={t('The program has not declared it')}
          inputWrapperOrder={['label', 'input', 'description']}
          allowDeselect={false}
          data={[...KEY_TYPES]}
          value={type}
          onChange={(chosen) => setType(chosen ?? KEY_TYPES[0])}
        />
      )}
      {typed.map((field, index) => (
        <KeyInput
          key={field.name}
          field={field}
          text={texts[index] ?? ''}
          problem={problems[index] ?? null}
          onChange={(text) => change(index, text)}
        />
      ))}
      <div className={classes.actions}>
        <Tooltip label={t('Requires the role operator')} disabled={isAllowed}>
          <Button
            variant="default"
            leftSection={<IconKey size={16} />}
            disabled={!isAllowed}
            loading={isListing}
            onClick={onKeys}
          >
            {t('Show Some Keys')}
          </Button>
        </Tooltip>
        <Tooltip label={t('Requires the role operator')} disabled={isAllowed}>
          <Button type="submit" leftSection={<IconSearch size={16} />} disabled={!isAllowed} loading={isBusy}>
            {t('Look Up')}
          </Button>
        </Tooltip>
      </div>
    </form>
  );
}

interface KeyInputProps {
  readonly field: KeyField;
  readonly text: string;
  readonly problem: string | null;
  readonly onChange: (text: string) => void;
}

function KeyInput({ field, text, problem, onChange }: KeyInputProps) {
  const label = field.name === '' ? t('Key') : t('Key: {name}', { name: field.name });
  const input = inputOf(field.type);
  if (input === 'boolean') {
    return (
      <Select
        label={label}
        description={field.type}
        inputWrapperOrder={['label', 'input', 'description', 'error']}
        allowDeselect={false}
        data={['false', 'true']}
        value={text === 'true' ? 'true' : 'false'}
        onChange={(chosen) => onChange(chosen ?? 'false')}
      />
    );
  }
  return (
    <TextInput
      label={label}
      description={field.type}
      inputWrapperOrder={['label', 'input', 'description', 'error']}
      placeholder={exampleOf(field.type)}
      inputMode={input === 'number' ? 'decimal' : 'text'}
      autoComplete="off"
      spellCheck={false}
      value={text}
      error={problem}
      onChange={(event) => onChange(event.currentTarget.value)}
      classNames={{ input: 'tm-mono' }}
    />
  );
}

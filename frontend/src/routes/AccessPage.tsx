/** Tokens of the user, and for administrators those of all users, and the users with their roles. */

import { Button, Group, NativeSelect, PasswordInput, Skeleton, Stack, Text, TextInput } from '@mantine/core';
import { IconKey, IconPlus } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, type SyntheticEvent, useState } from 'react';

import { addUser, changeUser, deleteUser, fetchTokens, fetchUsers, makeToken, revokeToken } from '../api/access';
import { CopyText } from '../components/CopyText/CopyText';
import { Dialog } from '../components/Dialog/Dialog';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import type { Role, TokenEntry, UserEntry } from '../gen/contract';
import { usePageTitle } from '../hooks/usePageTitle';
import { useRole } from '../hooks/useSession';
import { useTimes } from '../hooks/useTimes';
import { ROLES, mayAdminister, rolesUpTo } from '../model/access';
import { t } from '../texts/t';
import classes from './pages.module.css';

const TOKENS = ['tokens'];
const USERS = ['users'];
const LIVES = [
  { value: '7', label: '7 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: t('a year') },
  { value: '', label: t('for ever') },
];

export function AccessPage() {
  usePageTitle(t('Access'));
  const isAdmin = mayAdminister(useRole());
  return (
    <>
      <h1 className={classes.pageTitle}>{t('Access')}</h1>
      {isAdmin && <UsersPanel />}
      <TokensPanel ofAll={isAdmin} />
    </>
  );
}

// --- users -----------------------------------------------------------------------------------------------------------

function UsersPanel() {
  const { data, error, refetch } = useQuery({ queryKey: USERS, queryFn: fetchUsers });
  const [isAdding, setAdding] = useState(false);
  const [doomed, setDoomed] = useState<UserEntry | null>(null);
  return (
    <Panel flush title={t('Users')} actions={<AddButton label={t('Add User')} onClick={() => setAdding(true)} />}>
      {data === undefined && error === null && <Skeleton height={120} />}
      {data === undefined && error !== null && (
        <FailureState title={t('The users cannot be listed')} message={error.message} onRetry={() => void refetch()} />
      )}
      {data !== undefined && <UserRows users={data.users} onDelete={setDoomed} />}
      {isAdding && <AddUser onClose={() => setAdding(false)} />}
      {doomed !== null && (
        <Confirm
          title={t('Delete {name}?', { name: doomed.name })}
          text={t('The user and all tokens of the user are deleted at once. Jobs remain.')}
          action={t('Delete')}
          act={() => deleteUser(doomed.name)}
          onClose={() => setDoomed(null)}
        />
      )}
    </Panel>
  );
}

interface UserRowsProps {
  readonly users: readonly UserEntry[];
  readonly onDelete: (user: UserEntry) => void;
}

function UserRows({ users, onDelete }: UserRowsProps) {
  const times = useTimes();
  const client = useQueryClient();
  const { mutate, error } = useMutation({
    mutationFn: ({ name, ...change }: { name: string; role?: Role; is_active?: boolean }) => changeUser(name, change),
    onSettled: () => client.invalidateQueries({ queryKey: USERS }),
  });
  return (
    <div className="tm-table-scroll" tabIndex={0}>
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Users')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('User')}</th>
            <th scope="col">{t('Role')}</th>
            <th scope="col">{t('Last Login')}</th>
            <th scope="col" className="tm-num">
              {t('Tokens')}
            </th>
            <th scope="col">
              <span className="tm-visually-hidden">{t('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {users.map((user) => (
            <tr key={user.name}>
              <td className="tm-grow">
                {user.name}
                {!user.is_active && <div className="tm-dim">{t('may not log in')}</div>}
              </td>
              <td>
                <NativeSelect
                  size="xs"
                  miw={112}
                  aria-label={t('Role of {name}', { name: user.name })}
                  data={[...ROLES]}
                  value={user.role}
                  onChange={(event) => mutate({ name: user.name, role: event.currentTarget.value as Role })}
                />
              </td>
              <td>{user.last_login === null ? '–' : times.dateTime(user.last_login)}</td>
              <td className="tm-num">{user.tokens}</td>
              <td>
                <Group gap={6} wrap="nowrap">
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => mutate({ name: user.name, is_active: !user.is_active })}
                  >
                    {user.is_active ? t('Switch Off') : t('Switch On')}
                  </Button>
                  <Button size="compact-sm" variant="default" onClick={() => onDelete(user)}>
                    {t('Delete')}
                  </Button>
                </Group>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Failure error={error} />
    </div>
  );
}

function AddUser({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('viewer');
  const [password, setPassword] = useState('');
  const client = useQueryClient();
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => addUser({ name, role, ...(password === '' ? {} : { password }) }),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: USERS });
    },
  });
  return (
    <Form
      title={t('Add User')}
      action={t('Add')}
      isPending={isPending}
      error={error}
      onClose={onClose}
      onSubmit={() => mutate()}
    >
      <TextInput
        label={t('Name')}
        required
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <NativeSelect
        label={t('Role')}
        data={[...ROLES]}
        value={role}
        onChange={(event) => setRole(event.currentTarget.value as Role)}
      />
      <PasswordInput
        label={t('Password')}
        description={t('Empty: the user logs in with a token that you make')}
        autoComplete="new-password"
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
      />
    </Form>
  );
}

// --- tokens ----------------------------------------------------------------------------------------------------------

function TokensPanel({ ofAll }: { readonly ofAll: boolean }) {
  const { data, error, refetch } = useQuery({ queryKey: [...TOKENS, ofAll], queryFn: () => fetchTokens(ofAll) });
  const [isMaking, setMaking] = useState(false);
  const [doomed, setDoomed] = useState<TokenEntry | null>(null);
  return (
    <Panel flush title={t('Tokens')} actions={<AddButton label={t('Make Token')} onClick={() => setMaking(true)} />}>
      {data === undefined && error === null && <Skeleton height={120} />}
      {data === undefined && error !== null && (
        <FailureState title={t('The tokens cannot be listed')} message={error.message} onRetry={() => void refetch()} />
      )}
      {data?.tokens.length === 0 && (
        <EmptyState icon={IconKey} title={t('No token yet')}>
          {t('Programs and the command line log in with a token instead of a password.')}
        </EmptyState>
      )}
      {data !== undefined && data.tokens.length > 0 && <TokenRows tokens={data.tokens} onRevoke={setDoomed} />}
      {isMaking && <MakeToken onClose={() => setMaking(false)} />}
      {doomed !== null && (
        <Confirm
          title={t('Revoke {name}?', { name: doomed.name })}
          text={t('Whatever logs in with this token of {user} is refused from now on.', { user: doomed.user })}
          action={t('Revoke')}
          act={() => revokeToken(doomed.id)}
          onClose={() => setDoomed(null)}
        />
      )}
    </Panel>
  );
}

interface TokenRowsProps {
  readonly tokens: readonly TokenEntry[];
  readonly onRevoke: (token: TokenEntry) => void;
}

function TokenRows({ tokens, onRevoke }: TokenRowsProps) {
  const times = useTimes();
  return (
    <div className="tm-table-scroll" tabIndex={0}>
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Tokens')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Token')}</th>
            <th scope="col">{t('Scope')}</th>
            <th scope="col">{t('Expires')}</th>
            <th scope="col">{t('Last Used')}</th>
            <th scope="col">
              <span className="tm-visually-hidden">{t('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((token) => (
            <tr key={token.id}>
              <td className="tm-grow">
                {token.name}
                <div className="tm-dim">{token.user}</div>
              </td>
              <td>{token.scope ?? t('the user’s own role')}</td>
              <td>{token.expires_at === null ? t('never') : times.dateTime(token.expires_at)}</td>
              <td>{token.last_used === null ? '–' : times.dateTime(token.last_used)}</td>
              <td>
                <Button size="compact-sm" variant="default" onClick={() => onRevoke(token)}>
                  {t('Revoke')}
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function MakeToken({ onClose }: { readonly onClose: () => void }) {
  const role = useRole();
  const [name, setName] = useState('');
  const [scope, setScope] = useState<Role>(role);
  const [days, setDays] = useState('90');
  const client = useQueryClient();
  const { mutate, isPending, error, data } = useMutation({
    mutationFn: () => makeToken({ name, scope, days: days === '' ? null : Number(days) }),
    onSuccess: () => void client.invalidateQueries({ queryKey: TOKENS }),
  });
  if (data !== undefined) {
    return (
      <Stacked title={t('Token')} onClose={onClose}>
        <Text size="sm">{t('Copy the token now: it is not shown again.')}</Text>
        <div className="tm-mono tm-break">
          <CopyText text={data.token} label={t('token')} />
        </div>
        <Group justify="flex-end" mt="sm">
          <Button onClick={onClose}>{t('Done')}</Button>
        </Group>
      </Stacked>
    );
  }
  return (
    <Form
      title={t('Make Token')}
      action={t('Make')}
      isPending={isPending}
      error={error}
      onClose={onClose}
      onSubmit={() => mutate()}
    >
      <TextInput
        label={t('Name')}
        description={t('Purpose of the token')}
        required
        data-autofocus
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <NativeSelect
        label={t('Scope')}
        data={[...rolesUpTo(role)]}
        value={scope}
        onChange={(event) => setScope(event.currentTarget.value as Role)}
      />
      <NativeSelect
        label={t('Valid')}
        data={LIVES}
        value={days}
        onChange={(event) => setDays(event.currentTarget.value)}
      />
    </Form>
  );
}

// --- both ------------------------------------------------------------------------------------------------------------

function AddButton({ label, onClick }: { readonly label: string; readonly onClick: () => void }) {
  return (
    <Button size="compact-sm" variant="default" leftSection={<IconPlus size={14} />} onClick={onClick}>
      {label}
    </Button>
  );
}

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

function Stacked({ title, onClose, children }: DialogProps) {
  return (
    <Dialog onClose={onClose} title={title} centered>
      <Stack gap="sm">{children}</Stack>
    </Dialog>
  );
}

interface FormProps extends DialogProps {
  readonly action: string;
  readonly isPending: boolean;
  readonly error: Error | null;
  readonly onSubmit: () => void;
}

function Form({ title, action, isPending, error, onClose, onSubmit, children }: FormProps) {
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (!isPending) onSubmit();
  };
  return (
    <Stacked title={title} onClose={onClose}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          {children}
          <Failure error={error} />
          <Group justify="flex-end" mt="sm">
            <Button variant="default" onClick={onClose}>
              {t('Cancel')}
            </Button>
            <Button type="submit" loading={isPending}>
              {action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Stacked>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly text: string;
  readonly action: string;
  readonly act: () => Promise<void>;
  readonly onClose: () => void;
}

function Confirm({ title, text, action, act, onClose }: ConfirmProps) {
  const client = useQueryClient();
  const { mutate, isPending, error } = useMutation({
    mutationFn: act,
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: USERS });
      void client.invalidateQueries({ queryKey: TOKENS });
    },
  });
  return (
    <Stacked title={title} onClose={onClose}>
      <Text size="sm">{text}</Text>
      <Failure error={error} />
      <Group justify="flex-end" mt="sm">
        <Button variant="default" onClick={onClose} data-autofocus>
          {t('Keep')}
        </Button>
        <Button color="red.8" loading={isPending} onClick={() => mutate()}>
          {action}
        </Button>
      </Group>
    </Stacked>
  );
}

function Failure({ error }: { readonly error: Error | null }) {
  if (error === null) return null;
  return (
    <Text role="alert" size="sm" c="var(--tm-failed)" className="tm-break">
      {error.message}
    </Text>
  );
}

/** Login with name and password or with an API token. The one-time link of `make run` needs no form. */

import { Alert, Button, PasswordInput, SegmentedControl, TextInput } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { type SyntheticEvent, useEffect, useState } from 'react';
import { Navigate, useSearchParams } from 'react-router';

import { ROOT } from '../api/root';
import { Brand } from '../components/Brand/Brand';
import { Panel } from '../components/Panel/Panel';
import { ThemeSwitch } from '../components/Shell/ThemeSwitch';
import { usePageTitle } from '../hooks/usePageTitle';
import { useLogin, useSession } from '../hooks/useSession';
import { isAdminPath, safeReturnPath } from '../model/access';
import { t } from '../texts/t';
import classes from './pages.module.css';

export function LoginPage() {
  usePageTitle(t('Log in'));
  const [params] = useSearchParams();
  const { data: session } = useSession();
  const linkIsUsed = params.get('link') === 'expired';
  // users who log in by a link may have no password
  const [way, setWay] = useState(linkIsUsed ? 'token' : 'password');
  const { mutate: login, isPending, error, reset } = useLogin();
  const isLoggedIn = session !== undefined && session !== null;
  const path = safeReturnPath(params.get('next'));
  useEffect(() => {
    if (isLoggedIn && isAdminPath(path)) window.location.replace(ROOT + path.slice(1));
  }, [isLoggedIn, path]);
  if (isLoggedIn) return isAdminPath(path) ? null : <Navigate to={path} replace />;

  const submit = (event: SyntheticEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const field = (name: string) => {
      const value = form.get(name);
      return typeof value === 'string' ? value : '';
    };
    login(
      way === 'token'
        ? { token: field('token').trim() }
        : { username: field('username').trim(), password: field('password') },
    );
  };
  const notice =
    error?.message ??
    (linkIsUsed
      ? t(
          'This login link has been used or has expired: it logs in once, within ten minutes. “make run” prints a new link each time it starts; or log in with an API token.',
        )
      : null);
  return (
    <main className={classes.loginPage}>
      <div className={classes.loginBox}>
        <h1 className={classes.loginBrand}>
          <Brand large />
        </h1>
        <Panel label={t('Log in')}>
          <form onSubmit={submit} className={classes.stack}>
            <SegmentedControl
              fullWidth
              aria-label={t('Login method')}
              value={way}
              onChange={(value) => {
                setWay(value);
                reset();
              }}
              data={[
                { value: 'password', label: t('Password') },
                { value: 'token', label: t('API token') },
              ]}
            />
            {notice !== null && (
              <Alert
                role="alert"
                color={error === null ? 'orange' : 'red'}
                icon={<IconAlertTriangle size={18} />}
                p="sm"
              >
                {notice}
              </Alert>
            )}
            {way === 'password' ? (
              <>
                <TextInput
                  label={t('Name')}
                  name="username"
                  autoComplete="username"
                  required
                  autoFocus
                  withAsterisk={false}
                />
                <PasswordInput
                  label={t('Password')}
                  name="password"
                  autoComplete="current-password"
                  required
                  withAsterisk={false}
                />
              </>
            ) : (
              <PasswordInput
                label={t('API token')}
                name="token"
                autoComplete="off"
                required
                autoFocus
                withAsterisk={false}
                description={t('The administrator’s token is in the file admin-token in Tidemark’s home directory.')}
              />
            )}
            <Button type="submit" loading={isPending} fullWidth mt={4}>
              {t('Log in')}
            </Button>
          </form>
        </Panel>
        <div className={classes.loginBrand} style={{ marginTop: 16 }}>
          <ThemeSwitch />
        </div>
      </div>
    </main>
  );
}

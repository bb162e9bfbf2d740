/** The frame of every page behind the login: navigation, header, stale banner, and the live connection's lifetime. */

import { Loader, Tooltip } from '@mantine/core';
import {
  type Icon,
  IconBookmark,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconSchema,
  IconServer2,
  IconSitemap,
  IconUpload,
} from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, Suspense, lazy, useEffect } from 'react';
import { Link, NavLink, Navigate, Outlet, useLocation } from 'react-router';

import type { Session } from '../../gen/contract';
import { useConnection } from '../../hooks/useLive';
import { useEarlierOperations } from '../../hooks/useOperation';
import { useScrollMemory } from '../../hooks/useScrollMemory';
import { SESSION_KEY, useServerVersion, useSession } from '../../hooks/useSession';
import { mayAdminister } from '../../model/access';
import { connection } from '../../store/socket';
import { t } from '../../texts/t';
import { Brand } from '../Brand/Brand';
import { CommandKey } from '../CommandPalette/CommandKey';
import { FailureState } from '../EmptyState/EmptyState';
import { TourHost } from '../Tour/TourHost';
import { ConnectionIndicator, StaleBanner } from './Connection';
import classes from './Shell.module.css';
import { ThemeSwitch } from './ThemeSwitch';
import { UserMenu } from './UserMenu';

const Bell = lazy(async () => ({ default: (await import('../Inbox/Bell')).Bell }));

export function Shell() {
  const { data: session, error, refetch } = useSession();
  const location = useLocation();
  const isLoggedIn = session !== undefined && session !== null;
  useLiveConnection(isLoggedIn);
  if (session === null) {
    const next = encodeURIComponent(location.pathname + location.search);
    return <Navigate to={`/login?next=${next}`} replace />;
  }
  if (session === undefined) {
    return (
      <main className={classes.waiting}>
        {error === null ? (
          <>
            <h1 className="tm-visually-hidden">Tidemark</h1>
            <Loader role="status" aria-label={t('Loading')} />
          </>
        ) : (
          <FailureState
            isPage
            title={t('Tidemark does not answer')}
            message={error.message}
            onRetry={() => void refetch()}
          />
        )}
      </main>
    );
  }
  return <Frame session={session} />;
}

function Frame({ session }: { readonly session: Session }) {
  useScrollMemory();
  useEarlierOperations();
  return (
    <Vouched>
      <a href="#main" className={classes.skip}>
        {t('Skip to content')}
      </a>
      <header className={classes.header}>
        <Link to="/" className={classes.home} aria-label={t('{name}, overview', { name: 'Tidemark' })}>
          <Brand />
        </Link>
        <Version />
        <span className={classes.spring} />
        <ConnectionIndicator />
        <Suspense fallback={<span className={classes.bell} />}>
          <Bell />
        </Suspense>
        <ThemeSwitch />
        <UserMenu user={session.user} />
      </header>
      <nav className={classes.nav} aria-label={t('Main')}>
        <NavItem to="/" icon={IconLayoutDashboard} label={t('Overview')} />
        <NavItem to="/pipelines" icon={IconSchema} label={t('Pipelines')} />
        <NavItem to="/submit" icon={IconUpload} label={t('Submit New Job')} />
        <NavItem to="/savepoints" icon={IconBookmark} label={t('Savepoints')} />
        <NavItem to="/jobmanagers" icon={IconSitemap} label={t('Job Managers')} />
        <NavItem to="/taskmanagers" icon={IconServer2} label={t('Task Managers')} />
        <NavItem to="/access" icon={IconKey} label={t('Access')} />
        {mayAdminister(session.user.role) && <NavItem to="/audit" icon={IconHistory} label={t('Audit Trail')} />}
      </nav>
      <main id="main" className={classes.main} tabIndex={-1}>
        <StaleBanner />
        <div className={classes.content}>
          <Outlet />
        </div>
      </main>
      <CommandKey />
      <TourHost user={session.user.name} />
    </Vouched>
  );
}

/** Greys live figures while the server does not vouch for them. Each frame renders it, and not what is in it. */
function Vouched({ children }: { readonly children: ReactNode }) {
  const { stale } = useConnection();
  return (
    <div className={classes.shell} data-stale={stale !== null || undefined}>
      {children}
    </div>
  );
}

interface NavItemProps {
  readonly to: string;
  readonly icon: Icon;
  readonly label: string;
}

function NavItem({ to, icon: ItemIcon, label }: NavItemProps) {
  return (
    <Tooltip label={label} position="right" openDelay={300} classNames={{ tooltip: classes.navTip ?? '' }}>
      <NavLink to={to} end={to === '/'} className={classes.navItem ?? ''} aria-label={label}>
        <ItemIcon size={19} stroke={1.7} aria-hidden />
        <span className={classes.navLabel}>{label}</span>
      </NavLink>
    </Tooltip>
  );
}

function Version() {
  const version = useServerVersion();
  return version === null ? null : <span className={classes.version}>v{version}</span>;
}

/** Keeps the socket open while a user is logged in; when it closes, the session is checked again. */
function useLiveConnection(isLoggedIn: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    if (!isLoggedIn) return;
    connection.onDisconnect = () => void client.invalidateQueries({ queryKey: SESSION_KEY });
    connection.start();
    return () => connection.stop();
  }, [isLoggedIn, client]);
}

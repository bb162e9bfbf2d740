/** All jobmanagers, the one that leads and those that stand by; in a second tab the options of the cluster. */

import { Skeleton, Tabs } from '@mantine/core';
import { IconServerOff } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';

import { fetchClusterOptions, fetchJobManagers } from '../api/jobs';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { OptionTable } from '../components/OptionTable/OptionTable';
import { Panel } from '../components/Panel/Panel';
import { StateBadge } from '../components/StateBadge/StateBadge';
import { TabBar } from '../components/TabBar/TabBar';
import type { JobManager, JobManagers } from '../gen/contract';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useTimes } from '../hooks/useTimes';
import { t } from '../texts/t';
import classes from './pages.module.css';

const READ_MS = 2_000;

const TABS = [
  ['jobmanagers', t('Job Managers')],
  ['configuration', t('Configuration')],
] as const;

export function JobManagersPage() {
  usePageTitle(t('Job Managers'));
  const [param, setTab] = useQueryParam('tab', 'push');
  const tab = param === 'configuration' ? param : 'jobmanagers';
  return (
    <>
      <h1 className={classes.pageTitle}>{t('Job Managers')}</h1>
      <Tabs value={tab} onChange={setTab} keepMounted={false} classNames={{ panel: classes.tabPanel ?? '' }}>
        <TabBar tabs={TABS} value={tab} />
        <Tabs.Panel value="jobmanagers">
          <List />
        </Tabs.Panel>
        <Tabs.Panel value="configuration">
          <Configuration />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

function Configuration() {
  const { data, error, refetch } = useQuery({ queryKey: ['cluster-options'], queryFn: fetchClusterOptions });
  if (error !== null) {
    return (
      <FailureState
        title={t('The configuration cannot be shown')}
        message={error.message}
        onRetry={() => void refetch()}
      />
    );
  }
  if (data === undefined) return <Skeleton height={240} radius={10} />;
  return (
    <OptionTable
      title={t('Cluster Configuration')}
      caption={t('Options of the cluster')}
      options={data}
      none={t('All options have their defaults')}
    />
  );
}

function List() {
  const { data, error, refetch } = useQuery({
    queryKey: ['jobmanagers'],
    queryFn: fetchJobManagers,
    refetchInterval: READ_MS,
  });
  return (
    <>
      {data === undefined && error === null && <Skeleton height={200} radius={10} />}
      {data === undefined && error !== null && (
        <FailureState
          title={t('The JobManagers cannot be shown')}
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
      {data !== undefined && (
        <Panel flush label={t('Job Managers')}>
          {data.jobmanagers.length === 0 ? (
            <EmptyState icon={IconServerOff} title={t('No JobManager is known')}>
              {t('Jobs are neither started nor changed until one leads.')}
            </EmptyState>
          ) : (
            <Rows {...data} />
          )}
        </Panel>
      )}
    </>
  );
}

function Rows({ jobmanagers, redis_answers: redisAnswers }: JobManagers) {
  const times = useTimes();
  return (
    // on a phone the table scrolls, and nothing in it takes the focus
    <div className="tm-table-scroll" tabIndex={0}>
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Job Managers')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('ID')}</th>
            <th scope="col">{t('Role')}</th>
            <th scope="col" className="tm-num">
              {t('Epoch')}
            </th>
            <th scope="col">{t('Leads Since')}</th>
          </tr>
        </thead>
        <tbody>
          {jobmanagers.map((jobmanager) => (
            <tr key={jobmanager.id}>
              <td className="tm-grow">
                {jobmanager.id}
                <div className="tm-dim">{noteOn(jobmanager)}</div>
              </td>
              <td>
                <StateBadge
                  state={jobmanager.is_alive === false ? 'FAILED' : LOOKS[jobmanager.role]}
                  text={jobmanager.is_alive === false ? t('SILENT') : jobmanager.role}
                />
              </td>
              <td className="tm-num">{jobmanager.epoch ?? '–'}</td>
              <td>{jobmanager.leading_since === null ? '–' : times.dateTime(jobmanager.leading_since)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!redisAnswers && <p className="tm-dim">{t('Redis does not answer: standby JobManagers are unknown.')}</p>}
    </div>
  );
}

const LOOKS = { LEADER: 'RUNNING', STANDBY: 'CREATED' } as const;

function noteOn({ role, is_alive: isAlive }: JobManager): string {
  if (role === 'STANDBY') return t('takes over if the leader ends');
  return isAlive === false ? t('has not been seen for 5 s; a standby takes over') : t('runs all jobs');
}

/** The cluster at a glance: slots, TaskManagers, jobs by state, and the lists of jobs. */

import { Button, Progress, Skeleton, TextInput } from '@mantine/core';
import {
  IconAlertTriangle,
  IconBan,
  IconCheck,
  IconHistory,
  IconPlayerPlayFilled,
  IconRocket,
  IconSearch,
  IconSearchOff,
  IconServer2,
  IconStack2,
} from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { fetchAllTags } from '../api/tags';
import { Beginnings } from '../components/Beginnings/Beginnings';
import { CopyText } from '../components/CopyText/CopyText';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { JobTable } from '../components/JobTable/JobTable';
import { StateFilter, useStateFilter } from '../components/JobTable/StateFilter';
import { Panel } from '../components/Panel/Panel';
import { StatCard } from '../components/StatCard/StatCard';
import type { JobSummary } from '../gen/contract';
import { useCluster } from '../hooks/useLive';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import type { Cluster } from '../model/cluster';
import { concerns, countStates, filterJobs, type Tags } from '../model/jobList';
import { isTerminal } from '../model/states';
import { rich } from '../texts/rich';
import { t } from '../texts/t';
import classes from './pages.module.css';

/** Rows at the start, of jobs that have not ended and of those that have. */
const ACTIVE_PAGE = 50;
const ENDED_PAGE = 10;
const TAGS_MS = 10_000;
const NO_TAGS: Tags = {};

export function OverviewPage() {
  usePageTitle(t('Overview'));
  const { data: cluster, error } = useCluster();
  if (cluster === undefined) {
    return error === null ? (
      <Waiting />
    ) : (
      <FailureState isPage title={t('The cluster cannot be shown')} message={error} />
    );
  }
  return (
    <>
      <div className={classes.titleRow}>
        <h1 className={classes.pageTitle}>{t('Overview')}</h1>
        <Button component={Link} to="/submit" leftSection={<IconRocket size={17} stroke={1.8} />}>
          {t('Submit New Job')}
        </Button>
      </div>
      <Beginnings cluster={cluster} />
      <Cards cluster={cluster} />
      <Jobs cluster={cluster} />
    </>
  );
}

function Waiting() {
  return (
    <>
      <h1 className={classes.pageTitle}>{t('Overview')}</h1>
      <div className={classes.cards} role="status" aria-busy="true" aria-label={t('Loading')}>
        {[0, 1, 2, 3, 4, 5].map((index) => (
          <Skeleton key={index} height={104} radius={10} />
        ))}
      </div>
      <Skeleton height={280} radius={10} />
    </>
  );
}

function Cards({ cluster }: { readonly cluster: Cluster }) {
  const used = cluster.slots_total - cluster.slots_available;
  const inState = (state: string) => cluster.taskmanagers.filter((taskmanager) => taskmanager.state === state).length;
  const registered = inState('REGISTERED');
  const draining = inState('DRAINING');
  const count = (...states: string[]) => cluster.jobs.filter((job) => states.includes(job.state)).length;
  const active = cluster.jobs.filter((job) => !isTerminal(job.state)).length;
  const running = count('RUNNING');
  const icon = { size: 15, stroke: 1.8, 'aria-hidden': true } as const;
  return (
    <div className={classes.cards}>
      <StatCard
        label={t('Available Task Slots')}
        icon={<IconStack2 {...icon} />}
        value={
          <>
            {cluster.slots_available}{' '}
            <span className={classes.outOf}>{t('of {slotsTotal}', { slotsTotal: cluster.slots_total })}</span>
          </>
        }
        note={
          <Progress
            value={cluster.slots_total === 0 ? 0 : (100 * used) / cluster.slots_total}
            size={6}
            mt={6}
            aria-label={t('{used} of {slotsTotal} slots are in use', { used, slotsTotal: cluster.slots_total })}
          />
        }
      />
      <StatCard
        label={t('Task Managers')}
        icon={<IconServer2 {...icon} />}
        value={registered}
        note={[
          registered === 0 ? t('none registered') : t('registered'),
          draining > 0 && t('{draining} draining', { draining }),
        ]
          .filter(Boolean)
          .join(', ')}
      />
      <StatCard
        label={t('Running Jobs')}
        icon={<IconPlayerPlayFilled {...icon} color="var(--tm-running)" />}
        value={running}
        note={active > running ? t('{active} waiting or restarting', { active: active - running }) : t('jobs')}
      />
      <StatCard label={t('Finished')} icon={<IconCheck {...icon} />} value={count('FINISHED')} note={t('jobs')} />
      <StatCard label={t('Canceled')} icon={<IconBan {...icon} />} value={count('CANCELED')} note={t('jobs')} />
      <StatCard
        label={t('Failed')}
        icon={<IconAlertTriangle {...icon} color="var(--tm-failed)" />}
        value={count('FAILED')}
        note={t('jobs')}
      />
    </div>
  );
}

function Jobs({ cluster }: { readonly cluster: Cluster }) {
  const [filter, setFilter] = useQueryParam('filter');
  const [states] = useStateFilter();
  const { data: tags = NO_TAGS } = useQuery({ queryKey: ['tags'], queryFn: fetchAllTags, refetchInterval: TAGS_MS });
  if (cluster.jobs.length === 0) return <FirstJob />;
  const found = filterJobs(cluster.jobs, filter ?? '', tags);
  const shown = states.length === 0 ? found : found.filter(({ state }) => states.includes(state));
  const active = shown.filter((job) => !isTerminal(job.state));
  const ended = shown.filter((job) => isTerminal(job.state));
  const isFiltered = filter !== null || states.length > 0;
  return (
    <>
      <div className={classes.jobFilters}>
        <StateFilter counts={countStates(found)} />
        <TextInput
          size="xs"
          className={classes.jobSearch}
          placeholder={t('Filter by name, tag, state or cause')}
          aria-label={t('Filter jobs')}
          leftSection={<IconSearch size={15} />}
          value={filter ?? ''}
          onChange={(event) => setFilter(event.currentTarget.value === '' ? null : event.currentTarget.value)}
        />
      </div>
      {concerns(states, false) && <Active jobs={active} tags={tags} isFiltered={isFiltered} />}
      {concerns(states, true) && <Ended jobs={ended} tags={tags} isFiltered={isFiltered} />}
    </>
  );
}

interface ListProps {
  readonly jobs: readonly JobSummary[];
  readonly tags: Tags;
  readonly isFiltered: boolean;
}

function Active({ jobs, tags, isFiltered }: ListProps) {
  return (
    <Panel title={t('Running Jobs')} flush>
      {jobs.length > 0 ? (
        <JobTable jobs={jobs} tags={tags} caption={t('Running Jobs')} page={ACTIVE_PAGE} />
      ) : !isFiltered ? (
        <EmptyState compact icon={IconRocket} title={t('No running jobs')}>
          <Link to="/submit" className="tm-link">
            {t('Submit New Job')}
          </Link>
        </EmptyState>
      ) : (
        <EmptyState compact icon={IconSearchOff} title={t('No running job matches the filter')} />
      )}
    </Panel>
  );
}

function Ended({ jobs, tags, isFiltered }: ListProps) {
  return (
    <Panel title={t('Completed Jobs')} flush>
      {jobs.length > 0 ? (
        <JobTable jobs={jobs} tags={tags} caption={t('Completed Jobs')} withEnd page={ENDED_PAGE} />
      ) : (
        <EmptyState
          compact
          icon={isFiltered ? IconSearchOff : IconHistory}
          title={isFiltered ? t('No completed job matches the filter') : t('No completed jobs yet')}
        />
      )}
    </Panel>
  );
}

function FirstJob() {
  return (
    <Panel label={t('First job')}>
      <EmptyState icon={IconRocket} title={t('No jobs yet: run your first one')}>
        <p>{t('Start from a template and send it to this cluster:')}</p>
        <div className={classes.commands}>
          <CopyText block label={t('command')} text="tidemark new my_job" />
          <CopyText block label={t('command')} text="tidemark run my_job/my_job.py" />
        </div>
        <p>
          {rich('Or {link} here: a {code}, a {code2} or a {code3}.', {
            link: (
              <Link to="/submit" className="tm-link">
                {t('upload a program')}
              </Link>
            ),
            code: <code>.py</code>,
            code2: <code>.zip</code>,
            code3: <code>.whl</code>,
          })}
        </p>
      </EmptyState>
    </Panel>
  );
}

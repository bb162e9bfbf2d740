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
import classes from './pages.module.css';

/** Rows at the start, of jobs that have not ended and of those that have. */
const ACTIVE_PAGE = 50;
const ENDED_PAGE = 10;
const TAGS_MS = 10_000;
const NO_TAGS: Tags = {};

export function OverviewPage() {
  usePageTitle('Overview');
  const { data: cluster, error } = useCluster();
  if (cluster === undefined) {
    return error === null ? <Waiting /> : <FailureState isPage title="The cluster cannot be shown" message={error} />;
  }
  return (
    <>
      <div className={classes.titleRow}>
        <h1 className={classes.pageTitle}>Overview</h1>
        <Button component={Link} to="/submit" leftSection={<IconRocket size={17} stroke={1.8} />}>
          Submit New Job
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
      <h1 className={classes.pageTitle}>Overview</h1>
      <div className={classes.cards} role="status" aria-busy="true" aria-label="Loading">
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
        label="Available Task Slots"
        icon={<IconStack2 {...icon} />}
        value={
          <>
            {cluster.slots_available} <span className={classes.outOf}>of {cluster.slots_total}</span>
          </>
        }
        note={
          <Progress
            value={cluster.slots_total === 0 ? 0 : (100 * used) / cluster.slots_total}
            size={6}
            mt={6}
            aria-label={`${used} of ${cluster.slots_total} slots are in use`}
          />
        }
      />
      <StatCard
        label="Task Managers"
        icon={<IconServer2 {...icon} />}
        value={registered}
        note={`${registered === 0 ? 'none registered' : 'registered'}${draining === 0 ? '' : `, ${draining} draining`}`}
      />
      <StatCard
        label="Running Jobs"
        icon={<IconPlayerPlayFilled {...icon} color="var(--tm-running)" />}
        value={running}
        note={active > running ? `${active - running} waiting or restarting` : 'jobs'}
      />
      <StatCard label="Finished" icon={<IconCheck {...icon} />} value={count('FINISHED')} note="jobs" />
      <StatCard label="Canceled" icon={<IconBan {...icon} />} value={count('CANCELED')} note="jobs" />
      <StatCard
        label="Failed"
        icon={<IconAlertTriangle {...icon} color="var(--tm-failed)" />}
        value={count('FAILED')}
        note="jobs"
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
          placeholder="Filter by name, tag, state or cause"
          aria-label="Filter jobs"
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
    <Panel title="Running Jobs" flush>
      {jobs.length > 0 ? (
        <JobTable jobs={jobs} tags={tags} caption="Running Jobs" page={ACTIVE_PAGE} />
      ) : !isFiltered ? (
        <EmptyState compact icon={IconRocket} title="No running jobs">
          <Link to="/submit" className="tm-link">
            Submit New Job
          </Link>
        </EmptyState>
      ) : (
        <EmptyState compact icon={IconSearchOff} title="No running job matches the filter" />
      )}
    </Panel>
  );
}

function Ended({ jobs, tags, isFiltered }: ListProps) {
  return (
    <Panel title="Completed Jobs" flush>
      {jobs.length > 0 ? (
        <JobTable jobs={jobs} tags={tags} caption="Completed Jobs" withEnd page={ENDED_PAGE} />
      ) : (
        <EmptyState
          compact
          icon={isFiltered ? IconSearchOff : IconHistory}
          title={isFiltered ? 'No completed job matches the filter' : 'No completed jobs yet'}
        />
      )}
    </Panel>
  );
}

function FirstJob() {
  return (
    <Panel label="First job">
      <EmptyState icon={IconRocket} title="No jobs yet: run your first one">
        <p>Start from a template and send it to this cluster:</p>
        <div className={classes.commands}>
          <CopyText block label="command" text="tidemark new my_job" />
          <CopyText block label="command" text="tidemark run my_job/my_job.py" />
        </div>
        <p>
          Or{' '}
          <Link to="/submit" className="tm-link">
            upload a program
          </Link>{' '}
          here: a <code>.py</code>, a <code>.zip</code> or a <code>.whl</code>.
        </p>
      </EmptyState>
    </Panel>
  );
}

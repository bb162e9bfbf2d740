/** A job: header and tabs. The tab and the selected vertex are in the URL. */

import { Skeleton, Tabs } from '@mantine/core';
import { useViewportSize } from '@mantine/hooks';
import { IconChevronRight } from '@tabler/icons-react';
import { useCallback, useEffect } from 'react';
import { Link, useLocation, useParams, useSearchParams } from 'react-router';

import { Autoscaler } from '../components/Autoscaler/Autoscaler';
import { CheckpointsTab } from '../components/Checkpoints/CheckpointsTab';
import { CopyText } from '../components/CopyText/CopyText';
import { FailureState } from '../components/EmptyState/EmptyState';
import { ExceptionList } from '../components/ExceptionList/ExceptionList';
import { JobActions } from '../components/JobActions/JobActions';
import { JobConfiguration } from '../components/JobConfiguration/JobConfiguration';
import { JobGraph } from '../components/JobGraph/JobGraph';
import { JobRequirements } from '../components/JobRequirements/JobRequirements';
import { JobNotices } from '../components/JobNotices/JobNotices';
import { LogViewer } from '../components/LogViewer/LogViewer';
import { Panel } from '../components/Panel/Panel';
import { ProgramNotes, type ProgramSaid } from '../components/ProgramNotes/ProgramNotes';
import { StateBadge } from '../components/StateBadge/StateBadge';
import { TabBar } from '../components/TabBar/TabBar';
import { drawerWidth } from '../components/VertexDrawer/size';
import { VertexDrawer } from '../components/VertexDrawer/VertexDrawer';
import { VertexTable } from '../components/VertexTable/VertexTable';
import type { JobDocument } from '../gen/live';
import { useJob } from '../hooks/useLive';
import { useServerNow } from '../hooks/useNow';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useTimes } from '../hooks/useTimes';
import { formatDuration } from '../model/format';
import { failureCount } from '../model/notices';
import { isTerminal } from '../model/states';
import { recordJob } from '../store/metricHistory';
import classes from './JobPage.module.css';
import { NotFoundPage } from './NotFoundPage';
import pages from './pages.module.css';

const TABS = [
  ['overview', 'Overview'],
  ['checkpoints', 'Checkpoints'],
  ['exceptions', 'Exceptions'],
  ['logs', 'Logs'],
  ['configuration', 'Configuration'],
] as const;

export function JobPage() {
  const { jobId = '' } = useParams();
  const { data: job, missing, error } = useJob(jobId);
  usePageTitle(job?.name ?? 'Job');
  if (job !== undefined) return <Job key={job.id} job={job} />;
  if (missing) return <NotFoundPage title="Job not found">{`No job has the id ${jobId}.`}</NotFoundPage>;
  if (error !== null) return <FailureState isPage title="The job cannot be shown" message={error} />;
  return (
    <>
      <Skeleton height={64} radius={10} />
      <Skeleton height={420} radius={10} />
    </>
  );
}

function Job({ job }: { readonly job: JobDocument }) {
  const [param, setTab] = useQueryParam('tab', 'push');
  const tab = TABS.some(([value]) => value === param) ? param : 'overview';
  const now = useServerNow();
  useEffect(() => {
    if (!isTerminal(job.state)) recordJob(job, now);
  }, [job, now]);
  const failures = failureCount(job);
  const vertexLink = (taskName: string) => {
    const vertex = job.vertices.find(({ name }) => taskName.startsWith(name));
    return vertex === undefined ? null : `?vertex=${encodeURIComponent(vertex.id)}`;
  };
  return (
    <>
      <Head job={job} now={now} />
      <JustStarted />
      <Tabs value={tab} onChange={setTab} keepMounted={false} classNames={{ panel: classes.panel ?? '' }}>
        <TabBar
          tabs={TABS.map(([each, label]) => [
            each,
            label,
            each === 'exceptions' && failures > 0 && <span className={classes.count}>{failures}</span>,
          ])}
          value={tab}
        />
        <Tabs.Panel value="overview">
          <Overview job={job} />
        </Tabs.Panel>
        <Tabs.Panel value="checkpoints">
          <CheckpointsTab job={job} />
        </Tabs.Panel>
        <Tabs.Panel value="exceptions">
          <ExceptionList exceptions={job.exceptions} total={failures} vertexLink={vertexLink} />
        </Tabs.Panel>
        <Tabs.Panel value="logs">
          <LogViewer jobId={job.id} isLive={!isTerminal(job.state)} />
        </Tabs.Panel>
        <Tabs.Panel value="configuration">
          <JobConfiguration jobId={job.id} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

/** The program's output when it was run from this page; gone with the next navigation. */
function JustStarted() {
  const { state } = useLocation() as { readonly state: ProgramSaid | null };
  const { warnings = [], output = '' } = state ?? {};
  if (warnings.length === 0 && output === '') return null;
  return (
    <Panel title="Output of the program" flush>
      <ProgramNotes said={{ warnings, output }} />
    </Panel>
  );
}

function Head({ job, now }: { readonly job: JobDocument; readonly now: number }) {
  const times = useTimes();
  const duration = job.end_time < 0 ? Math.max(0, now - job.start_time) : job.duration;
  return (
    <header className={classes.head}>
      <nav className={pages.crumbs} aria-label="Breadcrumb">
        <Link to="/">Jobs</Link>
        <IconChevronRight size={14} aria-hidden />
        <CopyText text={job.id} label="job id" />
      </nav>
      <div className={pages.titleRow}>
        <div className={classes.title}>
          <h1 className={pages.pageTitle} title={job.name}>
            {job.name}
          </h1>
          <StateBadge state={job.state} />
        </div>
        <JobActions job={job} />
      </div>
      <dl className={classes.facts}>
        <Fact name="Start Time" value={times.dateTime(job.start_time)} />
        {job.end_time >= 0 && <Fact name="End Time" value={times.dateTime(job.end_time)} />}
        <Fact name="Parallelism" value={String(job.parallelism)} />
        <Fact name="Attempt" value={String(job.attempt)} />
        <Fact name="Restarts" value={String(job.restarts)} />
        {/* the last: it needs no fixed width to keep the others in their places */}
        <Fact name="Duration" value={formatDuration(duration)} />
      </dl>
      <JobNotices job={job} now={now} />
    </header>
  );
}

interface FactProps {
  readonly name: string;
  readonly value: string;
}

function Fact({ name, value }: FactProps) {
  return (
    <div className={classes.fact}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Overview({ job }: { readonly job: JobDocument }) {
  const [params, setParams] = useSearchParams();
  const selected = params.get('vertex');
  const select = useCallback(
    (id: string | null) =>
      setParams((old) => {
        const next = new URLSearchParams(old);
        if (id === null) {
          next.delete('vertex');
          next.delete('vtab');
        } else {
          next.set('vertex', id);
        }
        return next;
      }),
    [setParams],
  );
  const vertex = job.vertices.find(({ id }) => id === selected);
  const { width } = useViewportSize();
  const coveredRight = vertex === undefined ? 0 : drawerWidth(width);
  return (
    <>
      <Panel flush label="Job graph">
        <JobGraph vertices={job.vertices} selected={selected} onSelect={select} coveredRight={coveredRight} />
      </Panel>
      <Panel flush title="Vertices">
        <VertexTable vertices={job.vertices} selected={selected} onSelect={select} />
      </Panel>
      {!isTerminal(job.state) && <JobRequirements job={job} />}
      <Autoscaler job={job} />
      <VertexDrawer job={job} vertex={vertex} onClose={() => select(null)} />
    </>
  );
}

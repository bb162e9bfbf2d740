/** Details of a vertex, next to the graph: it does not cover the page, and Escape closes it. */

import { Drawer, Tabs } from '@mantine/core';
import { useViewportSize } from '@mantine/hooks';

import type { JobDocument, Vertex } from '../../gen/live';
import { useQueryParam } from '../../hooks/useQueryParam';
import { StateBadge } from '../StateBadge/StateBadge';
import { TabBar } from '../TabBar/TabBar';
import { AccumulatorsTab } from '../VertexMetrics/AccumulatorsTab';
import { MetricsTab } from '../VertexMetrics/MetricsTab';
import { BackPressureTab } from './BackPressureTab';
import { ChartsTab } from './ChartsTab';
import { DetailTab } from './DetailTab';
import { drawerWidth } from './size';
import { SubtasksTab } from './SubtasksTab';
import classes from './VertexDrawer.module.css';
import { WatermarksTab } from './WatermarksTab';

const TABS = [
  ['detail', 'Detail'],
  ['subtasks', 'Subtasks'],
  ['watermarks', 'Watermarks'],
  ['backpressure', 'Backpressure'],
  ['charts', 'Charts'],
  ['metrics', 'Metrics'],
  ['accumulators', 'Accumulators'],
] as const;

interface Props {
  readonly job: JobDocument;
  readonly vertex: Vertex | undefined;
  readonly onClose: () => void;
}

export function VertexDrawer({ job, vertex, onClose }: Props) {
  const { width } = useViewportSize();
  return (
    <Drawer
      opened={vertex !== undefined}
      onClose={onClose}
      position="right"
      size={drawerWidth(width)}
      withOverlay={false}
      lockScroll={false}
      trapFocus={false}
      closeButtonProps={{ 'aria-label': 'Close' }}
      title={vertex === undefined ? '' : <Title vertex={vertex} />}
      classNames={{
        inner: classes.inner ?? '',
        content: classes.content ?? '',
        header: classes.header ?? '',
        title: classes.title ?? '',
        body: classes.body ?? '',
      }}
    >
      {vertex !== undefined && <Contents job={job} vertex={vertex} />}
    </Drawer>
  );
}

function Title({ vertex }: { readonly vertex: Vertex }) {
  return (
    <>
      <span className={classes.name} title={vertex.name}>
        {vertex.name}
      </span>
      <StateBadge state={vertex.state} />
    </>
  );
}

function Contents({ job, vertex }: { readonly job: JobDocument; readonly vertex: Vertex }) {
  const [param, setTab] = useQueryParam('vtab', 'push');
  const tab = TABS.some(([value]) => value === param) ? param : 'detail';
  return (
    <Tabs value={tab} onChange={setTab} keepMounted={false} classNames={{ panel: classes.panel ?? '' }}>
      <TabBar tabs={TABS} value={tab} className={classes.tabs} />
      <Tabs.Panel value="detail">
        <DetailTab vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="subtasks">
        <SubtasksTab vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="watermarks">
        <WatermarksTab vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="backpressure">
        <BackPressureTab vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="charts">
        <ChartsTab jobId={job.id} vertexId={vertex.id} />
      </Tabs.Panel>
      <Tabs.Panel value="metrics">
        <MetricsTab jobId={job.id} vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="accumulators">
        <AccumulatorsTab jobId={job.id} vertex={vertex} />
      </Tabs.Panel>
    </Tabs>
  );
}

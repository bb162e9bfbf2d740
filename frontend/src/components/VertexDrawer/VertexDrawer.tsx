/** Details of a vertex, next to the graph: it does not cover the page, and Escape closes it. */

import { Drawer, Tabs } from '@mantine/core';
import { useViewportSize } from '@mantine/hooks';

import { useJobId, useVertex } from '../../hooks/useJob';
import { useQueryParam } from '../../hooks/useQueryParam';
import type { Vertex } from '../../model/job';
import { t } from '../../texts/t';
import { StateBadge } from '../StateBadge/StateBadge';
import { TabBar } from '../TabBar/TabBar';
import { AccumulatorsTab } from '../VertexMetrics/AccumulatorsTab';
import { MetricsTab } from '../VertexMetrics/MetricsTab';
import { BackPressureTab } from './BackPressureTab';
import { ChartsTab } from './ChartsTab';
import { DetailTab } from './DetailTab';
import { EdgesTab } from './EdgesTab';
import { FlameTab } from './FlameTab';
import { PeekTab } from './PeekTab';
import { drawerWidth } from './size';
import { SubtasksTab } from './SubtasksTab';
import classes from './VertexDrawer.module.css';
import { WatermarksTab } from './WatermarksTab';

const TABS = [
  ['detail', t('Detail')],
  ['subtasks', t('Subtasks')],
  ['edges', t('Edges')],
  ['peek', t('Peek')],
  ['watermarks', t('Watermarks')],
  ['backpressure', t('Backpressure')],
  ['flamegraph', 'FlameGraph'],
  ['charts', t('Charts')],
  ['metrics', t('Metrics')],
  ['accumulators', t('Accumulators')],
] as const;

interface Props {
  /** Null: closed. */
  readonly vertexId: string | null;
  readonly onClose: () => void;
}

export function VertexDrawer({ vertexId, onClose }: Props) {
  const vertex = useVertex(vertexId ?? '');
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
      closeButtonProps={{ 'aria-label': t('Close') }}
      title={vertex === undefined ? '' : <Title vertex={vertex} />}
      classNames={{
        inner: classes.inner ?? '',
        content: classes.content ?? '',
        header: classes.header ?? '',
        title: classes.title ?? '',
        body: classes.body ?? '',
      }}
    >
      {vertex !== undefined && <Contents vertex={vertex} />}
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

function Contents({ vertex }: { readonly vertex: Vertex }) {
  const jobId = useJobId();
  const [param, setTab] = useQueryParam('vtab', 'push');
  const tab = TABS.some(([value]) => value === param) ? param : 'detail';
  return (
    <Tabs value={tab} onChange={setTab} keepMounted={false} classNames={{ panel: classes.panel ?? '' }}>
      <TabBar tabs={TABS} value={tab} className={classes.tabs} />
      <Tabs.Panel value="detail">
        <DetailTab vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="subtasks">
        <SubtasksTab vertexId={vertex.id} />
      </Tabs.Panel>
      <Tabs.Panel value="edges">
        <EdgesTab vertexId={vertex.id} />
      </Tabs.Panel>
      <Tabs.Panel value="peek">
        <PeekTab key={vertex.id} jobId={jobId} vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="watermarks">
        <WatermarksTab vertexId={vertex.id} />
      </Tabs.Panel>
      <Tabs.Panel value="backpressure">
        <BackPressureTab vertexId={vertex.id} />
      </Tabs.Panel>
      <Tabs.Panel value="flamegraph">
        <FlameTab key={vertex.id} jobId={jobId} vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="charts">
        <ChartsTab jobId={jobId} vertexId={vertex.id} />
      </Tabs.Panel>
      <Tabs.Panel value="metrics">
        <MetricsTab jobId={jobId} vertex={vertex} />
      </Tabs.Panel>
      <Tabs.Panel value="accumulators">
        <AccumulatorsTab jobId={jobId} vertex={vertex} />
      </Tabs.Panel>
    </Tabs>
  );
}

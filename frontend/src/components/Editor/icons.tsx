/** The icons that node types name, and the colours of their categories. */

import {
  type Icon,
  IconAlertCircleFilled,
  IconAlertTriangleFilled,
  IconAppWindow,
  IconArrowMerge,
  IconArrowsJoin,
  IconArrowsSplit,
  IconBox,
  IconBraces,
  IconBrandPython,
  IconCircleDashed,
  IconClock,
  IconColumnInsertRight,
  IconColumns3,
  IconCopyOff,
  IconDatabase,
  IconDice5,
  IconFiles,
  IconFilter,
  IconGavel,
  IconInfoCircleFilled,
  IconListTree,
  IconPlaneDeparture,
  IconPlugConnected,
  IconSum,
  IconTable,
  IconTableOptions,
  IconTerminal2,
  IconTopologyStar,
  IconTrash,
  IconTrophy,
} from '@tabler/icons-react';

import type { Severity } from '../../model/pipeline/catalog';
import { t } from '../../texts/t';

const ICONS: Readonly<Record<string, Icon>> = {
  braces: IconBraces,
  clock: IconClock,
  'column-add': IconColumnInsertRight,
  columns: IconColumns3,
  'copy-off': IconCopyOff,
  database: IconDatabase,
  dice: IconDice5,
  files: IconFiles,
  filter: IconFilter,
  gavel: IconGavel,
  join: IconArrowsJoin,
  kafka: IconTopologyStar,
  'list-tree': IconListTree,
  merge: IconArrowMerge,
  plane: IconPlaneDeparture,
  python: IconBrandPython,
  sigma: IconSum,
  socket: IconPlugConnected,
  split: IconArrowsSplit,
  table: IconTable,
  'table-columns': IconTableOptions,
  terminal: IconTerminal2,
  trash: IconTrash,
  trophy: IconTrophy,
  window: IconAppWindow,
};

/** The icon of a node type, by the name that the type gives it. */
export function TypeIcon({ name, size }: { readonly name: string; readonly size: number }) {
  const Shown = ICONS[name] ?? IconBox;
  return <Shown size={size} stroke={1.8} aria-hidden />;
}

const SEVERITY_ICONS: Readonly<Record<Severity, Icon>> = {
  error: IconAlertCircleFilled,
  incomplete: IconCircleDashed,
  warning: IconAlertTriangleFilled,
  info: IconInfoCircleFilled,
};

export const SEVERITY_TEXT: Readonly<Record<Severity, string>> = {
  error: t('Error'),
  incomplete: t('Unfinished'),
  warning: t('Warning'),
  info: t('Note'),
};

export function SeverityIcon({ severity, size = 15 }: { readonly severity: Severity; readonly size?: number }) {
  const Shown = SEVERITY_ICONS[severity];
  return <Shown size={size} data-severity={severity} aria-hidden />;
}

const HUES = ['sources', 'rows', 'time', 'windows', 'per key', 'joins', 'python', 'sinks'];

/** The name of a category's colour, for data-hue. */
export function hueOf(category: string): string {
  const index = HUES.indexOf(category.toLowerCase());
  return index === -1 ? 'other' : (HUES[index]?.replace(' ', '-') ?? 'other');
}

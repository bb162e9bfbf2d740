/** What a user has chosen for the charts of a job, kept in this browser for the jobs that were looked at last. */

export interface ChartChoice {
  /** Name of a time range; null: the shortest. */
  readonly window: string | null;
  /** Ids of the vertices that are compared with the one that is shown. */
  readonly compare: readonly string[];
  /** Ids of further metrics, by vertex. */
  readonly metrics: Readonly<Record<string, readonly string[]>>;
}

export const NO_CHOICE: ChartChoice = { window: null, compare: [], metrics: {} };
const PREFIX = 'tidemark.charts.';
/** More fill the browser's storage with jobs that are long gone. */
const MAX_JOBS = 50;

const listeners = new Set<() => void>();
/** By user: the newest job last. */
const known = new Map<string, ReadonlyMap<string, ChartChoice>>();

export function chartChoice(user: string, jobId: string): ChartChoice {
  return choicesOf(user).get(jobId) ?? NO_CHOICE;
}

export function chooseCharts(user: string, jobId: string, change: Partial<ChartChoice>): void {
  const next = new Map(choicesOf(user));
  const choice = { ...(next.get(jobId) ?? NO_CHOICE), ...change };
  next.delete(jobId);
  next.set(jobId, choice);
  const kept = new Map([...next].slice(-MAX_JOBS));
  known.set(user, kept);
  try {
    localStorage.setItem(PREFIX + user, JSON.stringify([...kept]));
  } catch {
    // then it applies to this page only
  }
  for (const listener of [...listeners]) listener();
}

export function subscribeChartChoices(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** As after a reload. */
export function forgetChartChoices(): void {
  known.clear();
}

function choicesOf(user: string): ReadonlyMap<string, ChartChoice> {
  const found = known.get(user) ?? read(user);
  known.set(user, found);
  return found;
}

function read(user: string): ReadonlyMap<string, ChartChoice> {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(PREFIX + user) ?? '[]');
    if (!Array.isArray(stored)) return new Map();
    return new Map(stored.flatMap(entryOf));
  } catch {
    // storage is blocked or malformed
    return new Map();
  }
}

/** What is stored may be of another release, or of another program. */
function entryOf(entry: unknown): [string, ChartChoice][] {
  if (!Array.isArray(entry)) return [];
  const [jobId, choice] = entry as [unknown, Partial<Record<keyof ChartChoice, unknown>> | null];
  if (typeof jobId !== 'string' || typeof choice !== 'object' || choice === null) return [];
  const { window, compare, metrics } = choice;
  const byVertex = typeof metrics === 'object' && metrics !== null ? Object.entries(metrics) : [];
  return [
    [
      jobId,
      {
        window: typeof window === 'string' ? window : null,
        compare: textsOf(compare),
        metrics: Object.fromEntries(byVertex.map(([vertex, ids]) => [vertex, textsOf(ids)])),
      },
    ],
  ];
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}

/** The user's preferences in this browser: the time zone, and whether the ways to begin are put away. */

export interface Preferences {
  readonly utc: boolean;
  readonly isPutAway: boolean;
}

const KEY = 'tidemark.preferences';
const listeners = new Set<() => void>();
let preferences: Preferences = read();

function read(): Preferences {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Preferences>;
    return { utc: stored.utc === true, isPutAway: stored.isPutAway === true };
  } catch {
    // storage is blocked or malformed: use the defaults
    return { utc: false, isPutAway: false };
  }
}

export function getPreferences(): Preferences {
  return preferences;
}

export function setPreferences(change: Partial<Preferences>): void {
  preferences = { ...preferences, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // then it applies to this page only
  }
  for (const listener of [...listeners]) listener();
}

export function subscribePreferences(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What is uploaded when files or a directory are picked or dropped: one file as it is, or several modules as an archive. */

import { t } from '../texts/t';
import { refuseFile } from './programForm';

/** A file as the browser gave it. `path` is relative, with slashes: that of a directory begins with the directory. */
export interface Picked<F> {
  readonly path: string;
  readonly size: number;
  readonly file: F;
}

export type UploadPlan<F> =
  | { readonly kind: 'refused'; readonly problem: string }
  | { readonly kind: 'file'; readonly file: F }
  | {
      readonly kind: 'archive';
      readonly name: string;
      readonly members: readonly Picked<F>[];
      /** Modules at the top, by name: one of them starts the job. */
      readonly modules: readonly string[];
      /** The module that starts the job; '' if it is the archive's own `__main__`, null if that is to be asked. */
      readonly entry: string | null;
    };

const MAIN = '__main__';
const ARCHIVE = /\.(zip|whl)$/i;
const VIRTUAL_ENVIRONMENT = 'pyvenv.cfg';

/** Whether no module is imported from what has this name: what tools keep beside the sources. */
export function isSkipped(name: string): boolean {
  return name.startsWith('.') || name === '__pycache__' || name === 'node_modules';
}

/** Decides as `tidemark run` does for a directory. */
export function planUpload<F>(picked: readonly Picked<F>[]): UploadPlan<F> {
  const [only] = picked;
  if (only !== undefined && picked.length === 1 && !only.path.includes('/')) {
    const problem = refuseFile(only.path, only.size);
    return problem === null ? { kind: 'file', file: only.file } : { kind: 'refused', problem };
  }
  const { directory, members } = withoutCommonDirectory(withoutSkipped(picked));
  const archive = directory === null ? members.find(({ path }) => ARCHIVE.test(path)) : undefined;
  if (archive !== undefined) {
    return { kind: 'refused', problem: t('{path} is already an archive: upload it alone.', { path: archive.path }) };
  }
  const modules = members.flatMap(({ path }) => /^([^/]+)\.py$/.exec(path)?.[1] ?? []).toSorted();
  if (modules.length === 0) {
    const where = directory ?? t('these files');
    return { kind: 'refused', problem: t('There is no Python module at the top of {where}.', { where }) };
  }
  const entry = entryOf(modules, directory);
  const name = directory ?? modules.find((module) => module === entry) ?? 'program';
  return { kind: 'archive', name: `${name}.zip`, members, modules, entry };
}

function withoutSkipped<F>(picked: readonly Picked<F>[]): Picked<F>[] {
  const environments = picked
    .filter(({ path }) => path.endsWith(`/${VIRTUAL_ENVIRONMENT}`))
    .map(({ path }) => path.slice(0, -VIRTUAL_ENVIRONMENT.length));
  return picked.filter(
    ({ path }) => !path.split('/').some(isSkipped) && !environments.some((prefix) => path.startsWith(prefix)),
  );
}

/** One directory is taken for what is in it. */
function withoutCommonDirectory<F>(picked: readonly Picked<F>[]) {
  const [first = ''] = picked.map(({ path }) => path.slice(0, path.indexOf('/') + 1));
  if (first === '' || !picked.every(({ path }) => path.startsWith(first))) return { directory: null, members: picked };
  const members = picked.map((each) => ({ ...each, path: each.path.slice(first.length) }));
  return { directory: first.slice(0, -1), members };
}

function entryOf(modules: readonly string[], directory: string | null): string | null {
  if (modules.includes(MAIN)) return '';
  const likely = ['main', ...(directory === null ? [] : [directory.replaceAll('-', '_')])];
  return likely.find((name) => modules.includes(name)) ?? (modules.length === 1 ? (modules[0] ?? null) : null);
}

/** Packs modules into the zip that slots put on `sys.path`. */

import { type Zippable, zipSync } from 'fflate';

import type { Picked } from '../model/programFiles';

/** A zip cannot tell of a time before 1980; times of their own would make every upload another program. */
const MODIFIED = new Date(1980, 0, 1);

export async function packArchive(name: string, members: readonly Picked<Blob>[]): Promise<File> {
  const contents = await Promise.all(members.map(async ({ file }) => new Uint8Array(await file.arrayBuffer())));
  const tree: Zippable = {};
  members.forEach(({ path }, index) => {
    // a package without __init__.py is found in a zip only if its directory has an entry
    for (const folder of foldersOf(path)) tree[folder] = new Uint8Array();
    tree[path] = contents[index] ?? new Uint8Array();
  });
  const sorted = Object.fromEntries(Object.entries(tree).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  return new File([zipSync(sorted, { mtime: MODIFIED })], name, { type: 'application/zip' });
}

/** `a/b/c.py` lies in `a/` and `a/b/`. */
function foldersOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, index) => `${parts.slice(0, index + 1).join('/')}/`);
}

import { strFromU8, unzipSync } from 'fflate';
import { expect, test } from 'vitest';

import { packArchive } from './archive';

function member(path: string, text: string) {
  const file = new Blob([text]);
  return { path, size: file.size, file };
}

async function bytesOf(...members: ReturnType<typeof member>[]) {
  return new Uint8Array(await (await packArchive('job.zip', members)).arrayBuffer());
}

test('an archive has every module, and an entry for each directory', async () => {
  const found = unzipSync(await bytesOf(member('main.py', 'import a.b'), member('a/b/c.py', ''), member('ö.txt', 'é')));
  const texts = Object.entries(found).map(([path, content]) => [path, strFromU8(content)]);
  expect(texts).toEqual([
    ['a/', ''],
    ['a/b/', ''],
    ['a/b/c.py', ''],
    ['main.py', 'import a.b'],
    ['ö.txt', 'é'],
  ]);
});

test('the same modules are the same archive, whatever their order', async () => {
  const [one, other] = [member('a.py', '1'), member('b.py', '2')];
  expect(await bytesOf(one, other)).toEqual(await bytesOf(other, one));
});

import { expect, test } from 'vitest';

import { planUpload } from './programFiles';

function plan(...paths: string[]) {
  return planUpload(paths.map((path) => ({ path, size: 1, file: path })));
}

function archive(...paths: string[]) {
  const planned = plan(...paths);
  if (planned.kind !== 'archive') throw new Error(`${planned.kind}, not an archive`);
  return { ...planned, members: planned.members.map(({ path }) => path) };
}

test('one file is uploaded as it is', () => {
  expect(plan('job.py')).toEqual({ kind: 'file', file: 'job.py' });
  expect(plan('job.whl')).toEqual({ kind: 'file', file: 'job.whl' });
  expect(plan('job.jar')).toMatchObject({ kind: 'refused' });
});

test('several modules become an archive, and which of them starts the job is to be asked', () => {
  const { name, members, modules, entry } = archive('tides.py', 'gauges.py');
  expect([name, members, modules, entry]).toEqual([
    'program.zip',
    ['tides.py', 'gauges.py'],
    ['gauges', 'tides'],
    null,
  ]);
});

test.each([
  [['main.py', 'gauges.py'], 'main', 'main.zip'],
  [['__main__.py', 'main.py'], '', 'program.zip'],
  [['flood-watch/flood_watch.py', 'flood-watch/gauges.py'], 'flood_watch', 'flood-watch.zip'],
  [['job/watch.py', 'job/lib/gauges.py'], 'watch', 'job.zip'],
])('%j is started by %j', (paths, entry, name) => {
  expect(archive(...paths)).toMatchObject({ entry, name });
});

test('a directory is taken for what is in it, and a package dropped beside a module stays one', () => {
  expect(archive('job/main.py', 'job/lib/__init__.py', 'job/areas.csv').members).toEqual([
    'main.py',
    'lib/__init__.py',
    'areas.csv',
  ]);
  expect(archive('main.py', 'lib/gauges.py').members).toEqual(['main.py', 'lib/gauges.py']);
});

test('what tools keep beside the modules stays behind', () => {
  const tools = ['.git/config', '__pycache__/main.pyc', 'node_modules/a.js', 'env/pyvenv.cfg', 'env/lib/six.py'];
  expect(archive('job/main.py', ...tools.map((path) => `job/${path}`)).members).toEqual(['main.py']);
});

test.each([
  [['main.py', 'lib.whl'], /lib\.whl is already an archive/],
  [['notes.txt', 'areas.csv'], /no Python module at the top of these files/],
  [['job/src/main.py'], /no Python module at the top of job/],
])('%j is refused', (paths, problem) => {
  const planned = plan(...paths);
  expect(planned.kind === 'refused' ? planned.problem : planned).toMatch(problem);
});

// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';

import type { DeploymentAnswer, NewDeployment } from '../gen/contract';
import { deployKey, deployOnce, dropDeployKey } from './deployKeys';

beforeEach(() => localStorage.clear());

test('a wish has one key until it is granted', () => {
  const key = deployKey('p', { version: 2 });
  expect(key.length).toBeGreaterThanOrEqual(8);
  expect(deployKey('p', { version: 2 })).toBe(key);
  expect(deployKey('q', { version: 2 })).not.toBe(key);
  dropDeployKey('p');
  expect(deployKey('p', { version: 2 })).not.toBe(key);
});

test('another wish has another key', () => {
  expect(deployKey('p', { version: 3 })).not.toBe(deployKey('p', { version: 3, keeps_state: false }));
});

/** A server that makes one deployment of a key; `lost` answers do not arrive. */
function server() {
  const made = new Map<string, DeploymentAnswer>();
  const sent: string[] = [];
  let lost = 0;
  const send = (wanted: NewDeployment, key: string) => {
    sent.push(key);
    const deployment =
      made.get(key) ?? ({ id: `d${made.size + 1}`, state: 'COMPILED', version: wanted.version } as DeploymentAnswer);
    made.set(key, deployment);
    lost -= 1;
    return lost >= 0 ? Promise.reject(new Error('The server cannot be reached.')) : Promise.resolve(deployment);
  };
  const end = (state: string) => {
    for (const [key, deployment] of made) made.set(key, { ...deployment, state });
  };
  return { send, sent, made, end, lose: (count: number) => (lost = count) };
}

const WANTED = { version: 2, replaces: 'd0' };
const NONE: ReadonlySet<string> = new Set();

test.each(['COMPILED', 'STOPPING', 'RUNNING', 'FAILED'])(
  'a second try after a lost answer follows what the first one has made, %s by then',
  async (state) => {
    const { send, sent, made, end, lose } = server();
    lose(1);
    await expect(deployOnce('p', WANTED, NONE, send)).rejects.toThrow('cannot be reached');
    end(state);
    expect(await deployOnce('p', WANTED, NONE, send)).toMatchObject({ id: 'd1', state });
    expect([made.size, sent.length, new Set(sent).size]).toEqual([1, 2, 1]);
  },
);

test('a wish whose answer was lost, and which was over before the user was asked again, is another wish', async () => {
  const { send, made, end, lose } = server();
  lose(1);
  await expect(deployOnce('p', WANTED, NONE, send)).rejects.toThrow();
  end('ROLLED_BACK');
  const again = await deployOnce('p', WANTED, new Set(['d1']), send);
  expect([again.id, made.size]).toEqual(['d2', 2]);
});

test('a deployment that was under way when the user was asked is the same wish', async () => {
  const { send, made, end, lose } = server();
  lose(1);
  await expect(deployOnce('p', WANTED, NONE, send)).rejects.toThrow();
  end('STOPPING');
  expect((await deployOnce('p', WANTED, new Set(['d1']), send)).id).toBe('d1');
  expect(made.size).toBe(1);
});

test('an answered wish leaves no key', async () => {
  const { send, made } = server();
  await deployOnce('p', WANTED, NONE, send);
  await deployOnce('p', WANTED, NONE, send);
  expect(made.size).toBe(2);
});

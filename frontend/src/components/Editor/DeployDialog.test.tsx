// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { useState } from 'react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { CompatibilityAnswer, DeploymentAnswer, PipelineRestorePoint } from '../../gen/contract';
import type { Autosave } from '../../hooks/useAutosave';
import { useDeployments } from '../../hooks/useDeployments';
import { EditorContext } from '../../hooks/useEditor';
import { catalog, line } from '../../model/pipeline/testPipelines';
import { createEditor } from '../../store/editor';
import { DeployDialog, type Step } from './DeployDialog';

function deployment(id: string, more: Partial<DeploymentAnswer> = {}): DeploymentAnswer {
  return {
    id,
    version: 1,
    semantic_hash: '',
    state: 'RUNNING',
    job_id: `job-of-${id}`,
    job_state: 'RUNNING',
    created_at: 0,
    state_times: {},
    message: '',
    previous: null,
    keeps_state: true,
    allows_loss: false,
    savepoint: null,
    starts_from: null,
    report: null,
    operators: {},
    created_by: 'alice',
    ...more,
  };
}

/** Plays the routes of deployments; a test says what runs, and which answers are lost. */
class Server {
  all: DeploymentAnswer[] = [];
  posted: Record<string, unknown>[] = [];
  keys: string[] = [];
  points: PipelineRestorePoint[] = [];
  looked: string[] = [];
  reads = 0;
  lost = 0;
  isDown = false;
  private held: Promise<void> = Promise.resolve();
  private readonly made = new Map<string, DeploymentAnswer>();

  /** Keeps the answers about what runs until the returned function is called. */
  hold(): () => void {
    let release = (): void => undefined;
    this.held = new Promise((resolve) => {
      release = resolve;
    });
    return () => release();
  }

  readonly fetch = (url: string, init: RequestInit = {}): Promise<Response> => {
    if (url.endsWith('/restore-points')) return answered(200, { points: this.points });
    if (url.endsWith('/compatibility')) {
      const running = this.running();
      const { location = '' } = JSON.parse(init.body as string) as { location?: string };
      this.looked.push(location);
      if (location === 'file:///gone') {
        const error = { code: 'conflict', field: '', message: 'The snapshot cannot be read' };
        return answered(409, { errors: [error] });
      }
      const answer: CompatibilityAnswer = { running, report: null, nodes: {}, warnings: [] };
      return answered(200, answer);
    }
    if (url.includes('/versions/')) return answered(200, { number: 2, document: line() });
    if (init.method !== 'POST') {
      this.reads += 1;
      return this.held.then(() => {
        if (this.isDown) throw new TypeError('network');
        return answered(200, { deployments: this.all });
      });
    }
    return this.deploy(JSON.parse(init.body as string) as { replaces: string | null }, new Headers(init.headers));
  };

  private running(): DeploymentAnswer | null {
    return this.all.find(({ job_state }) => job_state === 'RUNNING') ?? null;
  }

  private deploy(body: { replaces: string | null }, headers: Headers): Promise<Response> {
    const key = headers.get('Idempotency-Key') ?? '';
    this.posted.push(body);
    this.keys.push(key);
    const runs = this.running();
    const known = this.made.get(key);
    if (known === undefined && body.replaces !== (runs?.id ?? null)) {
      const error = { code: 'other_runs', field: '', message: 'Version 7 of the pipeline runs by now' };
      return answered(409, { errors: [error] });
    }
    const made = known ?? deployment(`d${this.all.length + 1}`, { version: 2, previous: runs?.id ?? null });
    if (known === undefined) {
      this.made.set(key, made);
      this.all = [made, ...this.all.map((each) => ({ ...each, job_state: 'FINISHED' }))];
    }
    this.lost -= 1;
    return this.lost >= 0 ? Promise.reject(new TypeError('network')) : answered(202, made);
  }
}

function answered(status: number, body: unknown): Promise<Response> {
  return Promise.resolve(new Response(JSON.stringify(body), { status }));
}

let server: Server;
beforeEach(() => {
  localStorage.clear();
  server = new Server();
  vi.stubGlobal('fetch', server.fetch);
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

/** Nothing is saved: what is deployed is a version. */
const AUTOSAVE = null as unknown as Autosave;

function Host({ linked }: { readonly linked: Step | null }) {
  const [step, setStep] = useState<Step | null>(linked);
  const deployments = useDeployments('p');
  return (
    <>
      <button onClick={() => setStep({ kind: 'ask', version: 2 })}>Open</button>
      {deployments.all !== null && <span>known</span>}
      {step !== null && (
        <DeployDialog
          step={step}
          onStep={setStep}
          onClose={() => setStep(null)}
          autosave={AUTOSAVE}
          deployments={deployments}
          isChanged={false}
        />
      )}
    </>
  );
}

/** The page, which knows the deployments that there are now. */
async function opened(linked: Step | null = null): Promise<QueryClient> {
  const document = line();
  const editor = createEditor({
    pipelineId: 'p',
    catalog,
    document,
    head: { number: 2, document },
    isReadOnly: false,
  });
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <MemoryRouter>
          <EditorContext value={editor}>
            <Host linked={linked} />
          </EditorContext>
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
  await screen.findByText('known');
  return client;
}

async function press(name: string): Promise<void> {
  const button = await screen.findByRole('button', { name });
  await waitFor(() => expect((button as HTMLButtonElement).disabled).toBe(false));
  fireEvent.click(button);
}

test('a click and Enter are kept until it is known what runs, and then lead to its report', async () => {
  await opened();
  // a colleague has deployed while the tab was hidden
  server.all = [deployment('x', { version: 7 })];
  const go = server.hold();
  fireEvent.click(screen.getByText('Open'));
  await press('Deploy');
  await waitFor(() => expect(server.reads).toBe(2));
  expect(server.posted).toEqual([]);
  go();
  await screen.findByText(/^Version 7 is stopped with a savepoint/);
  expect([server.reads, server.posted]).toEqual([2, []]);
});

test('what a click waits for is told, if it cannot be read', async () => {
  const client = await opened();
  const go = server.hold();
  fireEvent.click(screen.getByText('Open'));
  await press('Deploy');
  server.isDown = true;
  go();
  await screen.findByText('The server cannot be reached.');
  server.isDown = false;
  void client.refetchQueries();
  expect((await screen.findByRole('status', { name: 'Outcome' })).textContent).toBe('Version 2 runs.');
  expect(server.posted).toHaveLength(1);
});

test('a job that began since is not replaced before its report was shown', async () => {
  const client = await opened();
  fireEvent.click(screen.getByText('Open'));
  await waitFor(() => expect(server.reads).toBe(2));
  await waitFor(() => expect(client.isFetching()).toBe(0));
  server.all = [deployment('x', { version: 7 })];
  await press('Deploy');
  await screen.findByText(/^Version 7 is stopped with a savepoint/);
  expect(screen.getByRole('alert').textContent).toBe('Version 7 of the pipeline runs by now');
  expect(server.posted).toEqual([{ version: 2, replaces: null }]);
  await press('Redeploy');
  await waitFor(() => expect(server.posted[1]).toMatchObject({ version: 2, replaces: 'x' }));
  await screen.findByRole('status', { name: 'Outcome' });
});

test('a choice about one job is not one about the job that has replaced it', async () => {
  server.all = [deployment('w', { version: 6 })];
  await opened();
  fireEvent.click(screen.getByText('Open'));
  await press('Review the state');
  await screen.findByText(/^Version 6 is stopped/);
  fireEvent.click(screen.getByLabelText('Start empty, with sources at their beginning'));
  server.all = [deployment('x', { version: 7 }), deployment('w', { version: 6, job_state: 'FINISHED' })];
  await press('Redeploy');
  await screen.findByText(/^Version 7 is stopped/);
  expect(server.posted).toMatchObject([{ keeps_state: false, replaces: 'w' }]);
  expect(screen.getByLabelText<HTMLInputElement>('Keep it, as above').checked).toBe(true);
  expect(server.all).toHaveLength(2);
});

test('a second try after a lost answer follows the deployment, and deploys nothing again', async () => {
  await opened();
  server.lost = 1;
  fireEvent.click(screen.getByText('Open'));
  await press('Deploy');
  await screen.findByText('The server cannot be reached.');
  // the list has it by then, as what runs
  await waitFor(() => expect(server.reads).toBe(3));
  await press('Try again');
  expect((await screen.findByRole('status', { name: 'Outcome' })).textContent).toBe('Version 2 runs.');
  expect([server.all.length, server.keys.length, new Set(server.keys).size]).toEqual([1, 2, 1]);
});

test('so does a second try behind the report', async () => {
  server.all = [deployment('w', { version: 6 })];
  await opened();
  server.lost = 1;
  fireEvent.click(screen.getByText('Open'));
  await press('Review the state');
  await screen.findByText(/^Version 6 is stopped/);
  await press('Redeploy');
  await screen.findByText('The server cannot be reached.');
  await waitFor(() => expect(server.reads).toBe(3));
  await press('Redeploy');
  const outcome = await screen.findByRole('status', { name: 'Outcome' });
  expect(outcome.textContent).toBe('Version 2 runs in place of version 6.');
  expect([server.all.length, server.keys.length, new Set(server.keys).size]).toEqual([2, 2, 1]);
});

test('a wish that was over before the dialog opened is asked for anew', async () => {
  await opened();
  server.lost = 1;
  fireEvent.click(screen.getByText('Open'));
  await press('Deploy');
  await screen.findByText('The server cannot be reached.');
  cleanup();
  server.all = server.all.map((each) => ({ ...each, job_state: 'CANCELED' as const }));
  await opened();
  fireEvent.click(screen.getByText('Open'));
  await press('Deploy');
  expect((await screen.findByRole('status', { name: 'Outcome' })).textContent).toBe('Version 2 runs.');
  expect([server.all.length, new Set(server.keys).size]).toEqual([2, 2]);
});

const POINTS: PipelineRestorePoint[] = [
  {
    kind: 'savepoint',
    location: 'file:///s/savepoint-9',
    checkpoint_id: 9,
    timestamp: 9_000,
    size: 2048,
    deleted_by: [],
    job_id: 'j2',
    job_state: 'FINISHED',
    version: 2,
  },
  {
    kind: 'checkpoint',
    location: 'file:///c/chk-4',
    checkpoint_id: 4,
    timestamp: 4_000,
    size: null,
    deleted_by: [],
    job_id: 'j1',
    job_state: 'FAILED',
    version: 1,
  },
];

test('where nothing runs, a version starts from a snapshot of the list, whose state is shown first', async () => {
  server.points = POINTS;
  await opened();
  fireEvent.click(screen.getByText('Open'));
  fireEvent.click(await screen.findByLabelText('Start from a snapshot'));
  await press('Review the state');
  // the newest one is looked at
  await screen.findByText('Version 2 goes on from the chosen snapshot.');
  expect(server.looked).toEqual(['file:///s/savepoint-9']);
  expect(screen.getByText(/^of version 2, .*: file:...s.savepoint-9$/)).toBeTruthy();
  expect(screen.queryByLabelText('Keep it, as above')).toBeNull();
  fireEvent.click(screen.getByLabelText(/^Checkpoint 4,/));
  await waitFor(() => expect(server.looked).toEqual(['file:///s/savepoint-9', 'file:///c/chk-4']));
  await press('Deploy');
  await screen.findByRole('status', { name: 'Outcome' });
  expect(server.posted).toEqual([
    { version: 2, keeps_state: true, allows_loss: false, replaces: null, location: 'file:///c/chk-4' },
  ]);
});

test('a job that runs is replaced from a path, which is looked at once it is typed', async () => {
  server.all = [deployment('w', { version: 6 })];
  await opened();
  fireEvent.click(screen.getByText('Open'));
  await press('Review the state');
  await screen.findByText(/goes on from there/);
  fireEvent.click(screen.getByLabelText('Another snapshot'));
  const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Redeploy' });
  expect(button.disabled).toBe(true);
  const path = screen.getByLabelText('Path of the snapshot');
  fireEvent.change(path, { target: { value: 'file:///gone' } });
  expect(server.looked).toEqual(['']);
  fireEvent.keyDown(path, { key: 'Enter' });
  expect((await screen.findByRole('alert')).textContent).toBe('The snapshot cannot be read');
  const again = screen.getByLabelText('Path of the snapshot');
  fireEvent.change(again, { target: { value: ' file:///elsewhere ' } });
  fireEvent.blur(again);
  await screen.findByText(/^Version 6 is stopped with a savepoint, and version 2 goes on from the chosen snapshot/);
  await press('Redeploy');
  await waitFor(() => expect(server.posted).toMatchObject([{ location: 'file:///elsewhere', replaces: 'w' }]));
});

test('a link leads to the state of a snapshot', async () => {
  server.all = [deployment('w', { version: 6 })];
  server.points = POINTS;
  await opened({ kind: 'report', version: 2, from: 'file:///c/chk-4' });
  await screen.findByText(/version 2 goes on from the chosen snapshot/);
  expect(server.looked).toEqual(['file:///c/chk-4']);
  expect(screen.getByLabelText<HTMLInputElement>(/^Checkpoint 4,/).checked).toBe(true);
});

test('a link leads to the state of what runs, and a checkpoint that is deleted with it is not offered', async () => {
  server.all = [deployment('w', { version: 6 })];
  server.points = POINTS.map((point) => ({
    ...point,
    deleted_by: point.kind === 'checkpoint' ? ['stop', 'cancel'] : [],
  }));
  await opened({ kind: 'report', version: 2, from: 'keep' });
  expect((await screen.findByLabelText<HTMLInputElement>('Keep it, as above')).checked).toBe(true);
  await screen.findByLabelText(/^Savepoint 9,/);
  expect(screen.queryByLabelText(/^Checkpoint 4,/)).toBeNull();
  expect(server.looked).toEqual(['']);
});

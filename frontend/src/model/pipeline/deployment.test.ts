import { expect, test } from 'vitest';

import type { DeploymentAnswer, OperatorVerdict } from '../../gen/contract';
import { nodeStates, outcomeOf, phasesOf, runningOf, verdictText } from './deployment';
import { emptyDocument } from './document';

function deployment(state: string, more: Partial<DeploymentAnswer> = {}): DeploymentAnswer {
  return {
    id: state,
    version: 2,
    semantic_hash: '',
    state,
    job_id: null,
    job_state: null,
    created_at: 0,
    state_times: { [state]: 1 },
    message: '',
    previous: null,
    keeps_state: true,
    allows_loss: false,
    savepoint: null,
    starts_from: null,
    report: null,
    operators: {},
    created_by: null,
    ...more,
  };
}

const shape = (made: DeploymentAnswer) => phasesOf(made).map(({ state, is }) => `${state} ${is}`);

test('a first deployment has two phases, a replacement five', () => {
  expect(shape(deployment('SUBMITTED'))).toEqual(['SUBMITTED now', 'RUNNING ahead']);
  const stopping = deployment('STOPPING', { previous: 'a', state_times: { COMPILED: 1, CHECKED: 2, STOPPING: 3 } });
  expect(shape(stopping)).toEqual([
    'COMPILED done',
    'CHECKED done',
    'STOPPING now',
    'SUBMITTED ahead',
    'RUNNING ahead',
  ]);
});

test('a rollback shows the way there and back', () => {
  const state_times = { COMPILED: 1, CHECKED: 2, STOPPING: 3, SUBMITTED: 4, ROLLING_BACK: 5 };
  const going = deployment('ROLLING_BACK', { previous: 'a', state_times });
  expect(shape(going).slice(3)).toEqual(['SUBMITTED done', 'ROLLING_BACK now', 'ROLLED_BACK ahead']);
  const back = deployment('ROLLED_BACK', { previous: 'a', state_times: { ...state_times, ROLLED_BACK: 6 } });
  expect(shape(back).slice(4)).toEqual(['ROLLING_BACK done', 'ROLLED_BACK done']);
  expect(outcomeOf(back, 1)).toContain('version 1 goes on from its savepoint');
  const lost = deployment('FAILED', { previous: 'a', state_times: { ...state_times, FAILED: 6 } });
  expect(shape(lost).slice(4)).toEqual(['ROLLING_BACK done', 'FAILED failed']);
});

test('a failure before anything was stopped leaves the rest out', () => {
  const failed = deployment('FAILED', { previous: 'a', state_times: { COMPILED: 1, FAILED: 2 } });
  expect(shape(failed)).toEqual(['COMPILED done', 'FAILED failed']);
});

test('the job that is to be replaced runs until the new one exists', () => {
  const old = deployment('RUNNING', { id: 'old', job_id: 'j1', job_state: 'RUNNING' });
  const next = deployment('STOPPING', { job_id: 'j2', job_state: null });
  expect(runningOf([next, old])?.id).toBe('old');
  expect(runningOf([{ ...old, job_state: 'FINISHED' }])).toBeNull();
});

function line(operator_id: string, verdict: OperatorVerdict['verdict'], more: Partial<OperatorVerdict> = {}) {
  return {
    operator_id,
    uid: operator_id,
    name: operator_id,
    verdict,
    why: '',
    before: 2,
    after: 2,
    size_bytes: 5,
    has_state: true,
    ...more,
  };
}

test('the worst of a node s operators counts, and sources speak of positions', () => {
  const node = (type: string, name: string) => ({ type, type_version: 1, name, uid: name, params: {} });
  const document = {
    ...emptyDocument('x'),
    nodes: { n1: node('source.nexmark', 'Bids'), n2: node('aggregate', 'Sums'), n3: node('python.process', 'Mine') },
    edges: {},
  };
  const operators = [
    line('a', 'kept'),
    line('b', 'kept'),
    line('c', 'new', { has_state: false, before: null }),
    line('d', 'unknown', {
      states: [
        { name: 'seen', fate: 'unknown', written: 'value state of long', expected: null },
        { name: 'rules', fate: 'kept', written: 'broadcast state', expected: 'broadcast state' },
      ],
    }),
    line('e', 'lost', { after: null }),
    line('f', 'kept', { has_state: false }),
  ];
  const report = { operators, refusal: '', is_restorable: true, loses_state: true };
  const states = nodeStates(report, document, { a: 'n1', b: 'n2', c: 'n2', d: 'n3', f: 'n4' }, { e: 'n9' });
  expect(states.map(({ id, verdict }) => [id, verdict])).toEqual([
    ['n9', 'lost'],
    ['n2', 'new'],
    ['n3', 'unknown'],
    ['n1', 'kept'],
    ['n4', 'none'],
  ]);
  expect(states[1]?.size_bytes).toBe(10);
  expect(states[2]?.states).toEqual(['seen (value state of long)']);
  expect(states.map(verdictText)[3]).toBe('goes on at its position');
});

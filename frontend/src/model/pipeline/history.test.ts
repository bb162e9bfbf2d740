import { expect, test } from 'vitest';

import { type PipelineDocument, emptyDocument, faults } from './document';
import { MAX_ENTRIES, record, redo, redoLabel, seal, startHistory, undo, undoLabel } from './history';
import { ranks } from './order';
import { randomEdit } from './testEdits';
import { idsFrom, line, seeded } from './testPipelines';

const EDITS = 50;
const SEQUENCES = 1000;
/** Of these, the ends are read by the server's tests. */
const KEPT = 24;

test(
  'undoing all gives the start and redoing all the end, over a thousand sequences of edits, and all are sound',
  { timeout: 60_000 },
  async () => {
    const ends: PipelineDocument[] = [];
    for (let seed = 1; seed <= SEQUENCES; seed += 1) {
      const random = seeded(seed);
      const makeId = idsFrom(random);
      const start = seed % 2 === 0 ? line() : emptyDocument('Empty');
      const frozen = JSON.stringify(start);
      let history = startHistory<PipelineDocument, readonly string[]>(start, []);
      for (let now = 0; now < EDITS; now += 1) {
        const document = randomEdit(history.present, random, makeId);
        history = record(history, { label: `edit ${now}`, document, selection: [`${now}`], now: now * 5000 });
        const step = random();
        if (step < 0.2) history = undo(history);
        else if (step < 0.3) history = redo(history);
        const wrong = faults(history.present);
        if (wrong.length > 0 || ranks(history.present).size < Object.keys(history.present.nodes).length) {
          expect.fail(`seed ${seed}, edit ${now}: ${wrong.join(', ')} or a cycle`);
        }
      }
      while (redoLabel(history) !== null) history = redo(history);
      const end = history.present;
      let back = history;
      while (undoLabel(back) !== null) back = undo(back);
      expect(back.present).toBe(start);
      expect(JSON.stringify(back.present)).toBe(frozen);
      while (redoLabel(back) !== null) back = redo(back);
      expect(back.present).toBe(end);
      ends.push(end);
    }
    const lines = ends.slice(0, KEPT).map((end) => `${JSON.stringify(end)}\n`);
    await expect(lines.join('')).toMatchFileSnapshot('../../../../tests/pipeline/drawn.jsonl');
  },
);

test('typing into a field is one step until a second passes, another field comes, or the field loses the focus', () => {
  let history = startHistory('', null);
  const type = (document: string, now: number, mergeKey = 'name') => {
    history = record(history, { label: 'Rename', document, selection: null, mergeKey, now });
  };
  type('a', 0);
  type('ab', 900);
  type('abc', 1800);
  expect(history.entries).toHaveLength(1);
  type('abcd', 2900);
  expect(history.entries).toHaveLength(2);
  type('abcde', 2950, 'summary');
  expect(history.entries).toHaveLength(3);
  history = seal(history);
  type('abcdef', 2960, 'summary');
  expect(history.entries).toHaveLength(4);
  history = undo(undo(history));
  expect(history.present).toBe('abcd');
  type('abcx', 2970, 'name');
  expect(history.entries.map(({ after }) => after)).toEqual(['abc', 'abcd', 'abcx']);
});

test('the selection comes back with the document', () => {
  let history = startHistory('a', 'first');
  history = record(history, { label: 'Edit', document: 'b', selection: 'second', now: 0 });
  expect(undo(history).selection).toBe('first');
  expect(redo(undo(history)).selection).toBe('second');
});

test('a change that changes nothing adds no step, and old steps go beyond the limit', () => {
  let history = startHistory(0, null);
  history = record(history, { label: 'Nothing', document: 0, selection: null, now: 0 });
  expect(undoLabel(history)).toBeNull();
  for (let number = 1; number <= MAX_ENTRIES + 5; number += 1) {
    history = record(history, { label: `${number}`, document: number, selection: null, now: number });
  }
  expect(history.entries).toHaveLength(MAX_ENTRIES);
  while (undoLabel(history) !== null) history = undo(history);
  expect(history.present).toBe(5);
});

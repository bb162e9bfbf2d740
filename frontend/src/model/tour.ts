/** The tour: six steps over the real pages. Pure: where a step is shown depends on what there is to show. */

import { t } from '../texts/t';

export interface TourStep {
  /** What it points at: a selector; on pages that have no such element it is shown by itself. */
  readonly target: string;
  readonly title: string;
  readonly text: string;
  readonly page: 'overview' | 'job' | 'pipelines' | 'editor';
}

export const STEPS: readonly TourStep[] = [
  {
    page: 'overview',
    target: '[aria-label="Running Jobs"]',
    title: t('What runs'),
    text: t('Every job of the cluster, live. A name leads to its page; slots are the processes that jobs run in.'),
  },
  {
    page: 'job',
    target: '[aria-label="Job graph"]',
    title: t('A job as it flows'),
    text: t('Operators in chains, with rates, load and watermarks as they are measured. A vertex opens its subtasks.'),
  },
  {
    page: 'job',
    target: '[role="tablist"]',
    title: t('What lies behind it'),
    text: t(
      'Checkpoints with their sizes, exceptions with the line of your code, logs that follow, and the options in force.',
    ),
  },
  {
    page: 'pipelines',
    target: '[data-tour="new"]',
    title: t('Draw a job'),
    text: t(
      'Begin with an empty canvas or with a template. Versions are kept, and nobody overwrites anyone else’s work.',
    ),
  },
  {
    page: 'editor',
    target: '[aria-label="Nodes to add"]',
    title: t('Nodes'),
    text: t(
      'Drag one onto the canvas, or press N anywhere. What a node makes of its input is known before anything runs.',
    ),
  },
  {
    page: 'editor',
    target: '[aria-label="Inspector"]',
    title: t('Parameters'),
    text: t(
      'Forms with the columns that flow here. Preview shows rows at every node; a new version goes on from a savepoint.',
    ),
  },
];

export interface TourState {
  readonly state: 'new' | 'open' | 'paused' | 'done';
  /** 0 to 5; where it goes on. */
  readonly step: number;
}

export const BEGINNING: TourState = { state: 'new', step: 0 };

export type TourMove = 'open' | 'next' | 'back' | 'pause' | 'end';

export function moved({ state, step }: TourState, move: TourMove): TourState {
  switch (move) {
    case 'open':
      return { state: 'open', step: state === 'done' ? 0 : step };
    case 'next':
      return step + 1 < STEPS.length ? { state, step: step + 1 } : { state: 'done', step: 0 };
    case 'back':
      return { state, step: Math.max(0, step - 1) };
    case 'pause':
      return { state: 'paused', step };
    case 'end':
      return { state: 'done', step: 0 };
  }
}

/** What was stored, or the beginning where it cannot be read. */
export function tourOf(text: string | null): TourState {
  try {
    const { state, step } = JSON.parse(text ?? '') as TourState;
    const isKnown = ['new', 'open', 'paused', 'done'].includes(state);
    return isKnown && Number.isInteger(step) && step >= 0 && step < STEPS.length ? { state, step } : BEGINNING;
  } catch {
    return BEGINNING;
  }
}

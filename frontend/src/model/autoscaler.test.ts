import { describe, expect, it } from 'vitest';

import { changeText, wantedOf } from './autoscaler';
import { vertex } from './testData';

const vertices = [vertex('source'), vertex('map', ['source'], { parallelism: 2 })];
const decided = { map: { wanted: 4, reason: 'Busy.' }, gone: { wanted: 1, reason: 'It was there.' } };

describe('what an autoscaler wants', () => {
  it('has the parallelism of each vertex beside it', () => {
    expect(wantedOf({ enabled: true, vertices: decided }, vertices)).toEqual([
      { id: 'map', name: 'map', parallelism: 2, wanted: 4, reason: 'Busy.' },
    ]);
  });

  it('is nothing while it is off, measures, or the job has ended', () => {
    expect(wantedOf({ enabled: false, vertices: decided }, vertices)).toEqual([]);
    expect(wantedOf({ enabled: true }, vertices)).toEqual([]);
    expect(wantedOf({}, vertices)).toEqual([]);
  });
});

it('tells a change in one line', () => {
  expect(changeText({ name: 'map', before: 2, after: 4, reason: 'Busy.' })).toBe('map from 2 to 4');
});

// @vitest-environment happy-dom
import { afterEach, expect, test, vi } from 'vitest';

import { focusWhenDrawn } from './focus';

function page() {
  document.body.replaceChildren();
  const add = (tag: string) => document.body.appendChild(document.createElement(tag));
  const [canvas, other, panel] = [add('button'), add('button'), add('section')];
  canvas.focus();
  return { canvas, other, panel };
}

const drawn = (panel: HTMLElement) => {
  panel.innerHTML = '<input />';
  return panel.querySelector('input');
};

afterEach(() => vi.useRealTimers());

test('a field that is there gets the focus at once, and one that is on its way when it is drawn', async () => {
  const { panel } = page();
  const field = drawn(panel);
  focusWhenDrawn(panel, 'input');
  expect(document.activeElement).toBe(field);

  const late = page().panel;
  focusWhenDrawn(late, 'input');
  const lateField = drawn(late);
  await vi.waitFor(() => expect(document.activeElement).toBe(lateField));
});

test('a focus that has moved on is left alone', async () => {
  const { panel, other } = page();
  focusWhenDrawn(panel, 'input');
  other.focus();
  drawn(panel);
  await new Promise((done) => setTimeout(done));
  expect(document.activeElement).toBe(other);
});

test('nobody waits for more than five seconds', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const { panel, canvas } = page();
  focusWhenDrawn(panel, 'input');
  vi.advanceTimersByTime(5_001);
  vi.useRealTimers();
  drawn(panel);
  await new Promise((done) => setTimeout(done));
  expect(document.activeElement).toBe(canvas);
});

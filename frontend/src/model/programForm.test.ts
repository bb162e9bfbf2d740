import { expect, test } from 'vitest';

import {
  FormError,
  configurationText,
  joinArguments,
  linesOf,
  parseConfiguration,
  refuseFile,
  splitArguments,
} from './programForm';

test.each([
  ['', []],
  ['  --rate 5\n--name x ', ['--rate', '5', '--name', 'x']],
  [`--name "a b" 'c "d"'`, ['--name', 'a b', 'c "d"']],
  ['a\\ b ""', ['a b', '']],
  [`pre"fix"ed`, ['prefixed']],
])('%j splits into %j', (text, words) => {
  expect(splitArguments(text)).toEqual(words);
});

test('an open quote is refused', () => {
  expect(() => splitArguments('--name "a')).toThrow(FormError);
});

test('configuration lines take a colon or an equals sign', () => {
  const text = '# tuning\npipeline.max-parallelism: 128\n\nhost = http://a:1\n';
  expect(parseConfiguration(text)).toEqual({ 'pipeline.max-parallelism': '128', host: 'http://a:1' });
});

test.each([
  ['just words', /Line 1/],
  ['a: 1\na: 2', /Line 2: a is set twice/],
])('%j is refused with its line', (text, message) => {
  expect(() => parseConfiguration(text)).toThrow(message);
});

test('requirements are the lines with something in them', () => {
  expect(linesOf(' geopy>=2 \n\n\tshapely==2.1\n')).toEqual(['geopy>=2', 'shapely==2.1']);
});

test('only programs can be uploaded', () => {
  expect(refuseFile('Job.PY', 10)).toBeNull();
  expect(refuseFile('job.jar', 10)).toMatch(/not a .py or .zip or .whl file/);
  expect(refuseFile('job.py', 0)).toMatch(/empty/);
});

test('arguments and options can be written down and read again', () => {
  const words = ['--rate', '1000', 'my job', "it's", '', 'a"b', '\\', '$HOME'];
  expect(splitArguments(joinArguments(words))).toEqual(words);
  const options = { 'a.b': '200 ms', c: 'x: y = z' };
  expect(parseConfiguration(configurationText(options))).toEqual(options);
});

/** Gathers the page's texts from the sources: `npm run texts` writes the catalogue and the pseudo-locale made of it. */

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import ts from 'typescript';

const FRONTEND = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');

/** What the functions of src/texts take as texts: the numbers of the arguments. */
const TAKEN = new Map(Object.entries({ t: [0], rich: [0], plural: [1, 2] }));

/** All English texts of the page, sorted. */
function texts() {
  const found = new Set();
  for (const file of readdirSync(path.join(FRONTEND, 'src'), { recursive: true }))
    if (/\.tsx?$/.test(file) && !/\.test\.|^gen\/|^texts\//.test(file)) gather(path.join(FRONTEND, 'src', file), found);
  return [...found].sort();
}

function gather(file, found) {
  const contents = readFileSync(file, 'utf8');
  if (!contents.includes('/texts/')) return;
  const source = ts.createSourceFile(file, contents, ts.ScriptTarget.Latest);
  const visit = (node) => {
    if (ts.isCallExpression(node))
      for (const position of TAKEN.get(node.expression.text) ?? []) {
        const text = node.arguments[position];
        if (text === undefined || !ts.isStringLiteralLike(text)) {
          const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
          throw new Error(`${file}:${line + 1}: a text is a literal`);
        }
        found.add(text.text);
      }
    ts.forEachChild(node, visit);
  };
  visit(source);
}

const ACCENTED = { a: 'á', c: 'ç', e: 'é', i: 'í', n: 'ñ', o: 'ö', s: 'š', u: 'ü', y: 'ý', z: 'ž' };

/** A text with accents, two fifths longer: shows what has no room, and texts that are not of the catalogue. */
export function pseudo(text) {
  // words grow by themselves, since text is broken between them
  return text.replace(/\{\w+\}|\p{L}+/gu, (word) => (word.startsWith('{') ? word : longer(word)));
}

/** Vowels are doubled until the word is long enough; one with too few ends in more letters. */
function longer(word) {
  let missing = Math.ceil(word.length * 0.4);
  const letters = [...word].map((letter) => {
    const lower = ACCENTED[letter.toLowerCase()] ?? letter;
    const accented = letter === letter.toLowerCase() ? lower : lower.toUpperCase();
    if (missing === 0 || !/[aeiouy]/.test(letter)) return accented;
    missing -= 1;
    return accented + accented;
  });
  return letters.join('') + 'é'.repeat(missing);
}

/** Path of each generated file and its contents. */
export function files() {
  const all = texts();
  const as = (translate) => JSON.stringify(Object.fromEntries(all.map((text) => [text, translate(text)])), null, 2);
  return {
    [path.join(FRONTEND, 'src/texts/en.json')]: `${as((text) => text)}\n`,
    [path.join(FRONTEND, 'public/locales/en-XA.js')]: `globalThis.tidemarkTexts = ${as(pseudo)};\n`,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [file, contents] of Object.entries(files())) writeFileSync(file, contents);

/** CodeMirror for SQL and Python. Loaded lazily: it is as large as the rest of the editor. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { StandardSQL, sql } from '@codemirror/lang-sql';
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { Annotation, Compartment, EditorState, type Extension, RangeSetBuilder, Transaction } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  EditorView,
  drawSelection,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder as placeholderText,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useEffectEvent, useRef } from 'react';

import type { Column, SqlFunction } from '../../model/pipeline/catalog';
import type { Mark } from '../../model/pipeline/forms';
import { completions } from './completions';
import classes from './CodeEditor.module.css';

interface Props {
  readonly value: string;
  readonly language: 'sql' | 'python';
  readonly label: string;
  readonly isReadOnly?: boolean;
  /** One line only: Enter leaves the field. */
  readonly isLine?: boolean;
  readonly columns?: readonly Column[];
  readonly functions?: readonly SqlFunction[];
  readonly takesAggregates?: boolean;
  readonly placeholder?: string;
  readonly problems?: readonly Mark[];
  /** Lines that are shown as belonging to what is selected: first and last, from 1. */
  readonly marked?: readonly (readonly [number, number])[];
  readonly onChange?: (value: string) => void;
  readonly onBlur?: () => void;
}

const NONE: readonly never[] = [];

export function CodeEditor(props: Props) {
  const { value, language, label, isReadOnly = false, isLine = false, columns = NONE, placeholder = '' } = props;
  const { problems = NONE, marked = NONE, functions = NONE, takesAggregates = false } = props;
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const completing = useRef(new Compartment());
  const changed = useEffectEvent((text: string) => props.onChange?.(text));
  const left = useEffectEvent(() => props.onBlur?.());
  const start = useEffectEvent(() => value);

  useEffect(() => {
    if (parent.current === null) return;
    const made = new EditorView({
      parent: parent.current,
      state: EditorState.create({
        doc: start(),
        extensions: [
          base(isLine),
          language === 'python' ? python() : sql({ dialect: StandardSQL, upperCaseKeywords: true }),
          completing.current.of([]),
          MARKS,
          isReadOnly ? [EditorState.readOnly.of(true), EditorView.editable.of(false)] : [],
          EditorView.contentAttributes.of({ 'aria-label': label, ...(isReadOnly ? { tabindex: '0' } : {}) }),
          placeholder === '' ? [] : placeholderText(placeholder),
          EditorView.updateListener.of((update) => {
            const isOutside = update.transactions.some((each) => each.annotation(OUTSIDE) === true);
            if (update.docChanged && !isOutside) changed(update.state.doc.toString());
          }),
          EditorView.domEventHandlers({ blur: () => left() }),
        ],
      }),
    });
    view.current = made;
    return () => {
      view.current = null;
      made.destroy();
    };
  }, [language, label, isReadOnly, isLine, placeholder]);

  // an undo on the canvas, or a fix, changes the text from outside
  useEffect(() => {
    const made = view.current;
    if (made === null || made.state.doc.toString() === value) return;
    made.dispatch({
      changes: { from: 0, to: made.state.doc.length, insert: value },
      annotations: [OUTSIDE.of(true), Transaction.addToHistory.of(false)],
    });
  }, [value]);

  useEffect(() => {
    const source = completions(language, columns, functions, takesAggregates);
    view.current?.dispatch({
      effects: completing.current.reconfigure(autocompletion({ override: [source], icons: false })),
    });
  }, [language, columns, functions, takesAggregates]);

  useEffect(() => {
    const made = view.current;
    if (made === null) return;
    const end = made.state.doc.length;
    const found = problems.map(({ from, to, message, severity }): Diagnostic => ({
      from: Math.min(from, end),
      to: Math.min(Math.max(to, from), end),
      message,
      severity,
    }));
    made.dispatch(setDiagnostics(made.state, found));
  }, [problems, value]);

  useEffect(() => {
    const made = view.current;
    if (made === null) return;
    made.dispatch({ effects: MARKED.reconfigure(linesOf(made, marked)) });
  }, [marked, value]);

  // once: typing must not bring the view back to the line
  useEffect(() => {
    const made = view.current;
    const first = marked[0]?.[0];
    if (made === null || first === undefined || first > made.state.doc.lines) return;
    const { from } = made.state.doc.line(first);
    made.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: 'center' }) });
  }, [marked]);

  return (
    <div ref={parent} className={classes.code} data-line={isLine || undefined} data-read={isReadOnly || undefined} />
  );
}

/** Marks a change that comes from the document: it must not go back there as a step of its own. */
const OUTSIDE = Annotation.define<boolean>();
const MARKED = new Compartment();
const MARKS = MARKED.of([]);

/** Marks whole lines. */
function linesOf(view: EditorView, marked: readonly (readonly [number, number])[]): Extension {
  const builder = new RangeSetBuilder<Decoration>();
  const { doc } = view.state;
  for (const [first, last] of [...marked].sort(([one], [other]) => one - other)) {
    for (let line = first; line <= Math.min(last, doc.lines); line += 1) {
      builder.add(doc.line(line).from, doc.line(line).from, Decoration.line({ class: classes.marked ?? '' }));
    }
  }
  const found: DecorationSet = builder.finish();
  return EditorView.decorations.of(found);
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--tm-waiting)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--tm-running)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--tm-trouble)' },
  { tag: tags.comment, color: 'var(--tm-dim)', fontStyle: 'italic' },
  {
    tag: [tags.function(tags.variableName), tags.definition(tags.variableName), tags.className],
    color: 'var(--tm-accent)',
  },
]);

function base(isLine: boolean): Extension {
  const oneLine = EditorState.transactionFilter.of((transaction) => (transaction.newDoc.lines > 1 ? [] : transaction));
  const enter = {
    key: 'Enter',
    run: (view: EditorView) => {
      view.contentDOM.blur();
      return true;
    },
  };
  return [
    highlightSpecialChars(),
    history(),
    drawSelection(),
    bracketMatching(),
    closeBrackets(),
    syntaxHighlighting(COLOURS),
    indentUnit.of('    '),
    isLine ? [] : [lineNumbers(), indentOnInput(), lintGutter()],
    keymap.of([
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...historyKeymap,
      ...(isLine ? [enter] : [{ ...indentWithTab, shift: indentWithTab.shift }]),
      ...defaultKeymap,
    ]),
    isLine ? [oneLine, EditorView.lineWrapping] : [],
  ];
}

/** Adds a component's commands to the palette while it is there. */

import { useEffect, useRef } from 'react';

import { type Command, provideCommands } from '../store/commands';

export function useCommands(make: () => readonly Command[]): void {
  const latest = useRef(make);
  useEffect(() => {
    latest.current = make;
  });
  // the palette asks while it renders, where effect events may not be called
  useEffect(() => provideCommands(() => latest.current()), []);
}

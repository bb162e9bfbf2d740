// @vitest-environment happy-dom
import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { useState } from 'react';
import { afterEach, expect, test } from 'vitest';

import { Dialog } from './Dialog';

afterEach(cleanup);

function Host() {
  const [isOpen, setOpen] = useState(false);
  return (
    <MantineProvider env="test">
      <button onClick={() => setOpen(true)}>Open</button>
      <button>Other</button>
      {isOpen && (
        <Dialog title="Name" onClose={() => setOpen(false)}>
          <input aria-label="Text" data-autofocus />
        </Dialog>
      )}
    </MantineProvider>
  );
}

test('what had the focus has it again when the dialog is gone, unless somebody else has it', () => {
  render(<Host />);
  const open = screen.getByText('Open');
  open.focus();
  fireEvent.click(open);
  screen.getByLabelText('Text').focus();
  fireEvent.click(screen.getByLabelText('Close'));
  expect(document.activeElement).toBe(open);
  fireEvent.click(open);
  const other = screen.getByText('Other');
  other.focus();
  fireEvent.click(screen.getByLabelText('Close'));
  expect(document.activeElement).toBe(other);
});

/** Mantine's theme: a tidal teal, slate greys whose dimmed text passes WCAG AA in both schemes, Inter for text. */

import { type MantineColorsTuple, createTheme } from '@mantine/core';

import { t } from './texts/t';

const tide: MantineColorsTuple = [
  '#e6f7fa',
  '#cdecf2',
  '#9bd8e4',
  '#66c3d5',
  '#3eb1c8',
  '#22a2bb',
  '#0e8ba4',
  '#057a91',
  '#056274',
  '#044c5a',
];

const gray: MantineColorsTuple = [
  '#f6f8fa',
  '#eef2f5',
  '#e2e8ed',
  '#d3dbe2',
  '#bcc7d1',
  '#93a1ae',
  '#586674',
  '#44515f',
  '#2f3b47',
  '#1a242d',
];

const dark: MantineColorsTuple = [
  '#dfe6ec',
  '#b8c4cf',
  '#93a3b2',
  '#64757f',
  '#354350',
  '#273340',
  '#1b252f',
  '#131b23',
  '#0e151c',
  '#0a1016',
];

export const theme = createTheme({
  colors: { tide, gray, dark },
  primaryColor: 'tide',
  primaryShade: 7,
  black: '#1a242d',
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "'JetBrains Mono Variable', ui-monospace, monospace",
  headings: { fontFamily: "'Inter Variable', system-ui, sans-serif", fontWeight: '650' },
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    // a dialog's header must not be a banner landmark of the page
    ModalHeader: { defaultProps: { role: 'presentation' } },
    DrawerHeader: { defaultProps: { role: 'presentation' } },
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': t('Dismiss') } } },
  },
});

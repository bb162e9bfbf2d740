/** How wide the drawer is, in px: its own width, or the window's less a margin. */

export const DRAWER_WIDTH = 760;
export const DRAWER_MARGIN = 72;

/** Width of the drawer in px: its own, or the window's minus a margin; on a phone the whole window. */

const DRAWER_WIDTH = 760;
const MARGIN = 72;
const PHONE = 640;

export function drawerWidth(windowWidth: number): number {
  return windowWidth <= PHONE ? windowWidth : Math.min(DRAWER_WIDTH, windowWidth - MARGIN);
}

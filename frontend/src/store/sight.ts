/**
 * Whether a part of the page is in sight. What is out of sight is told of changes late, those of some seconds at once: a
 * job of fifty vertices changes in a thousand places twice a second, of which a window shows a few.
 */

/**
 * Longer: whoever reads what is out of sight (a screen reader, a print, the browser's search) reads what was. Shorter: the
 * page works for nobody.
 */
const LATE_MS = 4_000;

type Subscribe = (listener: () => void) => () => void;

const behind = new Set<Sight>();
let timer: number | undefined;

export class Sight {
  #isIn = true;
  readonly #missed = new Set<() => void>();

  /** As `subscribe(listener)`; out of sight, the listener is called late. */
  through(subscribe: Subscribe, listener: () => void): () => void {
    const end = subscribe(() => {
      if (this.#isIn) listener();
      else this.#miss(listener);
    });
    return () => {
      end();
      this.#missed.delete(listener);
    };
  }

  get isIn(): boolean {
    return this.#isIn;
  }

  set isIn(isIn: boolean) {
    this.#isIn = isIn;
    if (isIn) this.catchUp();
  }

  catchUp(): void {
    behind.delete(this);
    const missed = [...this.#missed];
    this.#missed.clear();
    for (const listener of missed) listener();
  }

  #miss(listener: () => void): void {
    this.#missed.add(listener);
    behind.add(this);
    timer ??= window.setTimeout(() => {
      timer = undefined;
      for (const each of [...behind]) each.catchUp();
    }, LATE_MS);
  }
}

/** Where nobody has asked: always in sight. */
export const IN_SIGHT = new Sight();

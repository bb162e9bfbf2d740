/** The logo and the name. */

import classes from './Brand.module.css';

interface Props {
  readonly large?: boolean;
}

export function Brand({ large = false }: Props) {
  return (
    <span className={classes.brand} data-large={large || undefined}>
      <svg viewBox="0 0 32 32" aria-hidden className={classes.mark}>
        <rect width="32" height="32" rx="7" fill="#057a91" />
        <g fill="none" strokeWidth="2.8" strokeLinecap="round">
          <path d="M5 12.5c3.7-3.6 7.3-3.6 11 0s7.3 3.6 11 0" stroke="#fff" />
          <path d="M5 19.5c3.7-3.6 7.3-3.6 11 0s7.3 3.6 11 0" stroke="#9bd8e4" />
          <path d="M10 26h12" stroke="#fff" />
        </g>
      </svg>
      <span>Tidemark</span>
    </span>
  );
}

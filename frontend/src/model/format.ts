/**
 * Numbers and times as text. Widths are kept steady (three significant digits) so that columns do not jitter; a missing
 * value is an en dash. Units stand apart from the number by a narrow no-break space.
 */

import type { Watermark } from '../gen/contract';
import { t } from '../texts/t';

export const NOTHING = '–';
const GAP = '\u202f';

const counts = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** Whole numbers with thousands separators: 1,234,567. */
export function formatCount(value: number | null | undefined): string {
  return value === null || value === undefined || !Number.isFinite(value) ? NOTHING : counts.format(value);
}

/** Three significant digits and a unit: 0, 7.5, 840, 12.3 k, 1.04 M. */
export function formatCompact(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  return scaled(value, 1000, ['', 'k', 'M', 'G', 'T']);
}

/** Records per second. */
export function formatRate(value: number | null | undefined): string {
  const text = formatCompact(value);
  return text === NOTHING ? text : `${text}/s`;
}

/** Bytes in binary units: 812 B, 1.21 MiB. */
export function formatBytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value) || value < 0) return NOTHING;
  return scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
}

export function formatByteRate(value: number | null | undefined): string {
  const text = formatBytes(value);
  return text === NOTHING ? text : `${text}/s`;
}

/** ms per second (0..1000) as a percentage. */
export function formatShare(perThousand: number): string {
  return `${Math.round(clamp(perThousand, 0, 1000) / 10)}%`;
}

/** A multiple: 0.5 ×, 1.2 k ×. */
export function formatTimes(value: number | null | undefined): string {
  const text = formatCompact(value);
  return text === NOTHING ? text : `${text}${GAP}×`;
}

/** The two largest units: 850 ms, 12 s, 3 m 05 s, 2 h 07 m, 3 d 04 h. */
export function formatDuration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return NOTHING;
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)}${GAP}ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds}${GAP}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, 'm', seconds % 60, 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair(hours, 'h', minutes % 60, 'm');
  const days = Math.floor(hours / 24);
  return days < 1000 ? pair(days, 'd', hours % 24, 'h') : `${counts.format(days)}${GAP}d`;
}

/** A part of what takes seconds: as a duration, but 2.4 s. */
export function formatPhase(ms: number): string {
  return ms >= 1000 && ms < 9950 ? `${(ms / 1000).toFixed(1)}${GAP}s` : formatDuration(ms);
}

/** Time ago; below two seconds it is constant, to avoid flicker. */
export function formatAge(ms: number): string {
  return ms < 2000 ? t('just now') : t('{time} ago', { time: formatDuration(ms) });
}

/** 14:03:09, in UTC or in the zone of the browser. */
export function formatTime(ms: number, utc: boolean): string {
  return dateTime(ms, utc)?.[1] ?? NOTHING;
}

/** 2026-11-20 14:03:09; an end time of -1 is still to come. */
export function formatDateTime(ms: number | null | undefined, utc: boolean): string {
  if (ms === null || ms === undefined || ms < 0) return NOTHING;
  return dateTime(ms, utc)?.join(' ') ?? NOTHING;
}

/** A watermark is a time of the data; it may lie before 1970. */
export function formatWatermark(watermark: Watermark, utc: boolean): string {
  if (watermark === null) return t('none yet');
  if (watermark === 'max') return t('end of input');
  return dateTime(watermark, utc)?.join(' ') ?? String(watermark);
}

function dateTime(ms: number, utc: boolean): [string, string] | null {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return null;
  const [year, month, day, hour, minute, second] = utc
    ? [
        date.getUTCFullYear(),
        date.getUTCMonth(),
        date.getUTCDate(),
        date.getUTCHours(),
        date.getUTCMinutes(),
        date.getUTCSeconds(),
      ]
    : [date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
  return [
    `${String(year).padStart(4, '0')}-${two(month + 1)}-${two(day)}`,
    `${two(hour)}:${two(minute)}:${two(second)}`,
  ];
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let rest = Math.abs(value);
  let unit = 0;
  // 999.5 would be shown as 1000: it belongs to the next unit
  while (rest >= base - 0.5 && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  const whole = Number.isInteger(rest) && unit === 0;
  const digits = whole || rest >= 99.95 ? 0 : rest >= 9.995 || unit === 0 ? 1 : 2;
  const number = rest.toFixed(digits);
  const sign = value < 0 ? '-' : '';
  const name = units[unit] ?? '';
  return name === '' ? sign + number : `${sign}${number}${GAP}${name}`;
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return `${large}${GAP}${largeUnit} ${two(small)}${GAP}${smallUnit}`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

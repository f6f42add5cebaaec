// Numbers for people.

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** An integer with thousands separators. */
export function count(value) {
  return grouped.format(value);
}

/** `1 sample`, `1,234 samples`. */
export function plural(value, noun, nouns = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

/** A size in bytes with a unit of powers of 1,024. */
export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let size = value;
  let unit = 0;
  // What would be rounded to 1,024 belongs to the next unit.
  while (size >= 1023.5 && unit + 1 < units.length) {
    size /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${count(size)} B` : `${size.toFixed(size >= 100 ? 0 : 1)} ${units[unit]}`;
}

/**
 * Any number, with at most six significant digits unless it is an integer.
 * @param {number|string} value strings are numbers that JSON cannot hold, such as "nan" or large integers
 */
export function number(value) {
  if (typeof value !== 'number') return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return count(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(4);
  return String(Number(value.toPrecision(6)));
}

/** A ratio of two sizes, such as `3.02`; a dash where it says nothing. */
export function ratio(numerator, denominator) {
  if (!denominator || numerator === null || numerator === undefined) return '–';
  return (numerator / denominator).toFixed(2);
}

/** A share between 0 and 1 as a percentage. */
export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** An integer as people type it, with spaces or separators; null when it is none. */
export function parseCount(text) {
  const digits = text.replace(/[\s,_'’]/g, '');
  return /^\d{1,15}$/.test(digits) ? Number(digits) : null;
}

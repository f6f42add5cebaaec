// Small pictures of distributions, as SVG.

import { svg } from './elements.js';
import { count } from './format.js';

const width = 160;
const widestBar = 20;
const height = 28;

/**
 * A histogram. Its text says the range and the fullest bucket.
 * @param {{from: number, to: number, count: number}[]} buckets
 * @param {function(number): string} format of the ends of buckets
 * @param {string} name what is counted, for readers of screens
 * @returns {SVGElement}
 */
export function histogram(buckets, format, name) {
  const most = Math.max(1, ...buckets.map((bucket) => bucket.count));
  const step = width / Math.max(1, buckets.length);
  const barWidth = Math.min(widestBar, Math.max(0.5, step - (step > 4 ? 1 : 0.25)));
  const fullest = buckets.find((bucket) => bucket.count === most) ?? { from: 0, to: 0, count: 0 };
  const first = buckets[0] ?? fullest;
  const last = buckets[buckets.length - 1] ?? fullest;
  const text = `${name}: from ${format(first.from)} to ${format(last.to)}, most between ${format(fullest.from)} and ` +
    `${format(fullest.to)} (${count(fullest.count)})`;
  const bars = buckets.map((bucket, i) => {
    // A bucket that is not empty is always seen.
    const size = bucket.count === 0 ? 0 : Math.max(1.5, (bucket.count / most) * (height - 1));
    return svg('rect', { class: 'bar-fill', x: i * step + (step - barWidth) / 2, y: height - 1 - size,
      width: barWidth, height: size },
      svg('title', {}, `${format(bucket.from)} – ${format(bucket.to)}: ${count(bucket.count)}`));
  });
  return svg('svg', { class: 'histogram', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': text }, svg('line', { class: 'bar-base', x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }), bars);
}

/**
 * A curve through values, the first at the left.
 * @param {number[]} values finite ones are drawn
 * @param {string} text says what it shows
 * @returns {SVGElement}
 */
export function curve(values, text) {
  const finite = values.filter(Number.isFinite);
  let low = Infinity;
  let high = -Infinity;
  for (const value of finite) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const wide = 640;
  const tall = 140;
  const y = (value) => (high > low ? tall - 4 - ((value - low) / (high - low)) * (tall - 8) : tall / 2);
  const path = [];
  for (const column of extremes(values, wide)) {
    if (column === null) {
      path.push(null);
    } else {
      for (const value of [column.from, column.to]) path.push(`${column.x.toFixed(2)} ${y(value).toFixed(2)}`);
    }
  }
  let line = '';
  let pen = 'M';
  for (const point of path) {
    if (point !== null) line += `${pen}${point}`;
    pen = point === null ? 'M' : 'L';
  }
  return svg('svg', { class: 'curve', viewBox: `0 0 ${wide} ${tall}`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': text }, low <= 0 && high >= 0 ? svg('line', { class: 'bar-base', x1: 0, x2: wide, y1: y(0), y2: y(0) }) : null,
    svg('path', { class: 'curve-line', d: line, 'vector-effect': 'non-scaling-stroke' }));
}

/** The smallest and largest value of each column of pixels, from left to right; null where none is finite. */
function extremes(values, columns) {
  const result = [];
  const steps = Math.min(columns, values.length);
  for (let i = 0; i < steps; i++) {
    const part = values.slice(Math.floor((i * values.length) / steps), Math.floor(((i + 1) * values.length) / steps));
    const finite = part.filter(Number.isFinite);
    const x = steps > 1 ? (i / (steps - 1)) * columns : columns / 2;
    result.push(finite.length === 0 ? null : { x, from: Math.min(...finite), to: Math.max(...finite) });
  }
  return result;
}

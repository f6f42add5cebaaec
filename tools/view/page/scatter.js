// A picture of a shuffle: where in the dataset each delivered sample comes from.

import { element } from './elements.js';
import { bytes, count } from './format.js';

const side = 360;  // CSS pixels

/**
 * @param {Object} shuffle the reply of /shuffle; its points are [position, origin] pairs
 * @param {AbortSignal} signal
 * @returns {Element[]}
 */
export function shufflePicture(shuffle, signal) {
  const canvas = element('canvas', { class: 'scatter', width: side * 2, height: side * 2, role: 'img',
    'aria-label': `Origin of ${count(shuffle.points.length)} samples by position. ${meaning(shuffle)}` });
  const draw = () => paint(canvas.getContext('2d'), shuffle);
  requestAnimationFrame(draw);
  document.addEventListener('themechange', draw, { signal });
  const axis = (name, text) => element('span', { class: name, 'aria-hidden': 'true' }, text);
  return [element('figure', {},
    element('div', { class: 'scatter-frame' },
      axis('scatter-y', `place in the dataset, 0 to ${count(shuffle.samples)}`), canvas,
      axis('scatter-x', `position in the epoch, 0 to ${count(shuffle.positions)}`)),
    element('figcaption', {},
      element('p', { class: 'score' }, element('span', { class: 'score-number' }, shuffle.score.toFixed(3)),
        element('span', { class: 'quiet' }, ` score; a perfect shuffle has ${shuffle.perfect.toFixed(3)}`)),
      element('p', {}, meaning(shuffle)),
      element('p', { class: 'quiet' }, 'The score is the mean distance, in the dataset, of samples that are delivered ' +
        'one after the other, divided by that of a perfect shuffle: 1 is perfect, 0 is none.'),
      shuffle.buffer_bytes > 0 && element('p', { class: 'quiet' },
        `The loader holds at most ${bytes(shuffle.buffer_bytes)} to mix them.`)))];
}

function meaning({ score, perfect }) {
  const share = perfect > 0 ? score / perfect : score;
  if (share >= 0.95) return 'Neighbours come from anywhere in the dataset: as good as a perfect shuffle.';
  if (share >= 0.7) return 'Neighbours come from far apart, though a little nearer than in a perfect shuffle.';
  if (share >= 0.2) return 'Neighbours often come from the same part of the dataset: this mixes only in part.';
  return 'Neighbours stand next to each other in the dataset too: this is no shuffle.';
}

function paint(context, { positions, samples, points }) {
  const size = side * 2;
  context.clearRect(0, 0, size, size);
  // The style sheet says the colour of the theme.
  context.fillStyle = getComputedStyle(context.canvas).color;
  context.globalAlpha = points.length > 1000 ? 0.6 : 0.9;
  const dot = points.length > 1000 ? 3 : 6;
  for (const [position, origin] of points) {
    const x = (position / Math.max(1, positions)) * (size - dot);
    const y = (1 - origin / Math.max(1, samples)) * (size - dot);
    context.fillRect(x, y, dot, dot);
  }
}

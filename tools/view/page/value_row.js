// A value of a sample, with what is known of it.

import { apiPath } from './api.js';
import { damage, element } from './elements.js';
import { bytes, count } from './format.js';
import { link } from './router.js';
import { arrayValue } from './value_array.js';
import { jsonValue, textValue } from './value_text.js';
import { bytesValue, mediaValue } from './value_bytes.js';

/**
 * @param {number} dataset
 * @param {Object} sample the reply of /sample
 * @param {Object} column one of its columns
 * @param {boolean} looked whether the value is the image that is shown above
 * @param {AbortSignal} signal
 * @returns {Element}
 */
export function valueRow(dataset, sample, column, looked, signal) {
  const heading = element('h3', { class: 'column-name' }, column.name);
  const size = column.present && !column.error && typeof column.length === 'number' ? ` · ${bytes(column.length)}` : '';
  const codec = column.codec && column.codec !== 'none' ? ` · ${column.codec}` : '';
  const about = element('p', { class: 'value-about' }, column.type, codec, size);
  const left = element('div', { class: 'value-name' }, heading, about);
  if (column.checksum) {
    left.append(element('p', { class: 'value-about checksum', title: 'XXH3-64 of the value' }, `xxh3 ${column.checksum}`));
  }
  // A value that cannot be shown can still be had, unless it cannot be read.
  if (column.present && (!column.error || typeof column.length === 'number')) {
    left.append(element('a', { class: 'download', download: '', href: apiPath(dataset, `value/${sample.ordinal}`,
      { column: column.name, download: 1 }) }, 'Download', element('span', { class: 'unseen' }, ` ${column.name}`)));
  }
  return element('article', { class: 'value', 'aria-label': column.name }, left,
    element('div', { class: 'value-body' }, body(dataset, sample, column, looked, signal)));
}

function body(dataset, sample, column, looked, signal) {
  if (column.error) return damage('p', `damaged: ${column.error}`);
  if (!column.present) return element('p', { class: 'quiet' }, 'absent');
  switch (column.kind) {
    case 'image': return imageFacts(dataset, sample, column, looked);
    case 'masks': return masksFacts(column);
    case 'json': return jsonValue(column);
    case 'text': return textValue(column);
    case 'number':
    case 'boolean':
    case 'time': return scalar(column);
    case 'array': return arrayValue(dataset, sample.ordinal, column, signal);
    default: return /^(audio|video)\//.test(column.media_type ?? '') ?
      mediaValue(dataset, sample.ordinal, column) : bytesValue(column);
  }
}

function scalar(column) {
  // Identifiers are looked for as they are stored; a large count is easier to read in groups.
  const grouped = Number.isInteger(column.value) && Math.abs(column.value) >= 10000 ?
    element('span', { class: 'quiet' }, ` ${count(column.value)}`) : null;
  return element('p', { class: 'scalar' }, String(column.value), column.meaning !== null && column.meaning !== undefined &&
    element('span', { class: 'meaning' }, column.meaning), grouped);
}

const orientations = ['', 'upright', 'mirrored', 'turned by 180°', 'flipped', 'transposed', 'turned by 90°',
  'transversed', 'turned by 270°'];

function imageFacts(dataset, sample, column, looked) {
  const parts = [];
  if (column.width) parts.push(`${count(column.width)} × ${count(column.height)} pixels`);
  if (column.detail) parts.push(column.detail);
  if (column.media_type) parts.push(column.media_type);
  if (column.orientation > 0) {
    parts.push(`EXIF orientation ${column.orientation}, ${orientations[column.orientation] ?? 'unknown'}`);
  }
  if (column.shown === false) parts.push('browsers cannot show this format');
  return [element('p', {}, parts.join(' · ')),
    column.warning && damage('p', column.warning),
    !looked && element('p', {},
      element('a', { href: link(dataset, 'sample', sample.ordinal, { column: column.name }) }, 'Show above'))];
}

function masksFacts(column) {
  const size = column.width ? ` of ${count(column.width)} × ${count(column.height)} pixels` : ' of different sizes';
  return element('p', {}, `${count(column.masks)} masks${size}, ${count(column.runs)} runs`);
}

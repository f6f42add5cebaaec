// Bytes: as sound or film where the browser plays them, else in hexadecimal.

import { apiPath } from './api.js';
import { element } from './elements.js';
import { bytes, count } from './format.js';

/** A player of the browser. */
export function mediaValue(dataset, ordinal, column) {
  const tag = column.media_type.startsWith('audio/') ? 'audio' : 'video';
  const problem = element('p', { class: 'damaged', role: 'status' });
  const player = element(tag, { controls: true, preload: 'metadata', 'aria-label': `${column.name}, ${column.media_type}`,
    src: apiPath(dataset, `value/${ordinal}`, { column: column.name }) });
  player.addEventListener('error', () => { problem.textContent = `This browser cannot play it (${column.media_type}).`; });
  return [element('p', { class: 'quiet' }, column.media_type), player, problem,
    column.front_hex !== undefined && element('details', { class: 'more' },
      element('summary', {}, 'Bytes'), bytesValue(column))];
}

/** The first bytes, 16 a line: offset, hexadecimal, characters of ASCII. */
export function bytesValue(column) {
  const hex = column.front_hex ?? '';
  const lines = [];
  for (let offset = 0; 2 * offset < hex.length; offset += 16) {
    const pairs = hex.slice(2 * offset, 2 * offset + 32).match(/../g) ?? [];
    const characters = pairs.map((pair) => {
      const code = parseInt(pair, 16);
      return code >= 32 && code < 127 ? String.fromCharCode(code) : '·';
    });
    const left = pairs.slice(0, 8).join(' ').padEnd(23);
    const right = pairs.slice(8).join(' ').padEnd(23);
    lines.push(`${offset.toString(16).padStart(6, '0')}  ${left}  ${right}  ${characters.join('')}`);
  }
  return [lines.length === 0 ? element('p', { class: 'quiet' }, column.length === 0 ? 'empty' : '–') :
    element('pre', { class: 'hex', tabindex: '0', role: 'region', 'aria-label': `Bytes of ${column.name}` }, lines.join('\n')),
  column.truncated && element('p', { class: 'quiet' }, `The first ${count(hex.length / 2)} bytes of ${bytes(column.length)}.`)];
}

// Arrays: short ones as they are, long vectors as a curve, matrices as a table.

import { apiPath, getJson } from './api.js';
import { element } from './elements.js';
import { count, number } from './format.js';
import { curve } from './histogram.js';

const curveFrom = 16;   // elements
const mostRows = 20;
const mostColumns = 16;

/** Shape and first elements at once; all of it when it is unfolded, or at once when it is small. */
export function arrayValue(dataset, ordinal, column, signal) {
  const total = column.shape.reduce((product, size) => product * size, 1);
  const shape = element('p', { class: 'value-about' }, `${column.dtype} [${column.shape.map(count).join(' × ')}]` +
    ` · ${count(total)} ${total === 1 ? 'element' : 'elements'}`);
  const front = (column.front ?? []).map(number).join(', ');
  if (total <= (column.front ?? []).length) return [shape, element('p', { class: 'scalar' }, front === '' ? 'empty' : front)];
  const place = element('div', { class: 'array' });
  const details = element('details', { class: 'more' },
    element('summary', {}, element('span', { class: 'array-front' }, `${front}, …`)), place);
  let asked = false;
  details.addEventListener('toggle', async () => {
    if (asked || !details.open) return;
    asked = true;
    place.replaceChildren(element('p', { class: 'quiet', role: 'status' }, 'Reading…'));
    try {
      const array = await getJson(apiPath(dataset, `array/${ordinal}`, { column: column.name }), signal);
      place.replaceChildren(...whole(array, column.name));
    } catch (error) {
      if (!signal.aborted) place.replaceChildren(element('p', { class: 'damaged' }, `damaged: ${error.message}`));
    }
  });
  return [shape, details];
}

function whole(array, name) {
  const facts = [`minimum ${number(array.minimum)}`, `maximum ${number(array.maximum)}`];
  if (array.mean !== null && array.mean !== undefined) facts.push(`mean ${number(array.mean)}`);
  if (array.nan > 0) facts.push(`${count(array.nan)} NaN`);
  const parts = [element('p', {}, facts.join(' · '))];
  const shape = array.shape.filter((size) => size !== 1);
  if (shape.length === 1 && shape[0] >= curveFrom) {
    parts.push(curve(array.values.map(Number), `Curve of ${name}: ${facts.join(', ')}`), flat(array, 64));
  } else if (shape.length === 2) {
    parts.push(matrix(array, shape, name));
  } else {
    parts.push(flat(array, 256));
  }
  if (array.count > array.values.length) {
    parts.push(element('p', { class: 'quiet' }, `The first ${count(array.values.length)} elements.`));
  }
  return parts;
}

function flat(array, most) {
  const more = array.count > most ? `, … (${count(array.count)})` : '';
  return element('p', { class: 'array-flat' }, array.values.slice(0, most).map(number).join(', ') + more);
}

/** The first rows and columns of a matrix. */
function matrix(array, [rows, columns], name) {
  const shownRows = Math.min(rows, mostRows);
  const shownColumns = Math.min(columns, mostColumns);
  const head = element('tr', {}, element('td', {}),
    Array.from({ length: shownColumns }, (_, x) => element('th', { scope: 'col', class: 'number' }, x)));
  const body = Array.from({ length: shownRows }, (_, y) => element('tr', {},
    element('th', { scope: 'row', class: 'number' }, y), Array.from({ length: shownColumns }, (__, x) => {
      const value = array.values[y * columns + x];
      return element('td', { class: 'number' }, value === undefined ? '…' : number(value));
    })));
  const cut = shownRows < rows || shownColumns < columns;
  return element('div', { class: 'table-frame', tabindex: '0', role: 'region', 'aria-label': `Elements of ${name}` },
    element('table', { class: 'matrix' }, element('thead', {}, head), element('tbody', {}, body)),
    cut && element('p', { class: 'quiet' },
      `${count(shownRows)} of ${count(rows)} rows, ${count(shownColumns)} of ${count(columns)} columns.`));
}

// What helps to write a condition: the columns, and where a mistake is.

import { damage, element } from './elements.js';
import { nameText } from './predicate_text.js';

/**
 * The columns with their types; each button inserts its name into the input.
 * @param {Object[]} columns of /overview
 * @param {HTMLInputElement} input
 * @returns {Element}
 */
export function columnList(columns, input) {
  const insert = (name) => {
    const text = nameText(name);
    const from = input.selectionStart ?? input.value.length;
    const before = input.value.slice(0, from);
    const space = before === '' || /[\s(]$/.test(before) ? '' : ' ';
    input.setRangeText(`${space}${text}`, from, input.selectionEnd ?? from, 'end');
    input.focus();
  };
  return element('aside', { class: 'find-columns', 'aria-labelledby': 'find-columns-title' },
    element('h2', { id: 'find-columns-title' }, 'Columns'),
    element('p', { class: 'quiet' }, 'A click inserts the name.'),
    element('ul', {}, columns.map((column) => element('li', {},
      element('button', { type: 'button', class: 'plain', 'aria-label': `Insert ${column.name}`,
        onclick: () => insert(column.name) }, element('span', { class: 'column-name' }, column.name)),
      element('span', { class: 'type' }, column.type), element('span', { class: 'mark' }, use(column))))));
}

/** What a condition can do with a column. */
function use(column) {
  switch (column.kind) {
    case 'number':
    case 'time': return '= < > in';
    case 'text': return '= ~ in starts_with';
    case 'boolean': return 'by itself';
    case 'array': return 'count min max mean sum any all len';
    default: return 'len, is null';
  }
}

/**
 * What is wrong with a text, with a caret below the place.
 * @param {string} text
 * @param {ApiError} error `position` counts characters from 0
 * @returns {Element}
 */
export function problemText(text, error) {
  const message = damage('p', error.message);
  if (typeof error.position !== 'number' || text === '') return element('div', { class: 'problem' }, message);
  // Characters are code points, as the server counts them. Of a long text only the part around the place is shown.
  const characters = [...text.replace(/\s/g, ' ')];
  const position = Math.max(0, Math.min(error.position, characters.length));
  const from = Math.max(0, position - 48);
  const cut = from > 0 ? '…' : '';
  const shown = cut + characters.slice(from, from + 96).join('');
  const caret = `${' '.repeat(position - from + cut.length)}^`;
  return element('div', { class: 'problem' },
    element('pre', { class: 'caret', 'aria-hidden': 'true' }, `${shown}\n${caret}`), message);
}

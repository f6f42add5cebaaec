// The table of columns. Its cells for statistics have their final size from the beginning.

import { element, fill } from './elements.js';
import { bytes, count, number, plural, ratio } from './format.js';
import { histogram } from './histogram.js';
import { equalsText } from './predicate_text.js';
import { link } from './router.js';

/**
 * @param {number} dataset
 * @param {Object} overview the reply of /overview
 * @returns {{node: Element, status: Element, fill: function(Object)}} fill() takes the reply of /statistics
 */
export function columnTable(dataset, overview) {
  const cells = new Map();
  const rows = overview.columns.map((column) => {
    const own = {
      ratio: element('td', { class: 'number' }, '–'),
      present: element('td', { class: 'number' }, '–'),
      lengths: element('td', { class: 'chart' }),
      values: element('td', { class: 'chart' }),
    };
    cells.set(column.name, own);
    return element('tr', {}, nameCell(column), typeCell(column), own.present, own.ratio, own.lengths, own.values);
  });
  const node = element('div', { class: 'table-frame', tabindex: '0', role: 'region', 'aria-label': 'Table of columns' },
    element('table', { class: 'columns' }, element('thead', {}, element('tr', {},
      ['Column', 'Type'].map((title) => element('th', { scope: 'col' }, title)),
      element('th', { scope: 'col', class: 'number' }, 'Present'), element('th', { scope: 'col', class: 'number' }, 'Ratio'),
      ['Lengths', 'Values'].map((title) => element('th', { scope: 'col' }, title)))),
    element('tbody', {}, rows)));
  const status = element('div', { class: 'statistics-status', role: 'status' });
  const show = (statistics) => {
    for (const column of statistics.columns ?? []) {
      const own = cells.get(column.name);
      if (own) fillRow(own, column, dataset);
    }
  };
  return { node, status, fill: show };
}

function nameCell(column) {
  const marks = [column.key && 'key', column.nullable && 'may be absent'].filter(Boolean);
  return element('th', { scope: 'row' }, element('span', { class: 'column-name' }, column.name),
    marks.length > 0 && element('span', { class: 'mark' }, marks.join(', ')));
}

function typeCell(column) {
  const classes = column.class_names?.length ?? 0;
  // Classes have a list of their own.
  const details = Object.entries(column.metadata ?? {}).filter(([name]) => classes === 0 || name !== 'class_names');
  const more = [];
  if (classes > 0) more.push(plural(classes, 'class', 'classes'));
  if (details.length > 0) more.push(plural(details.length, 'note'));
  return element('td', {}, element('span', { class: 'type' }, column.type),
    element('span', { class: 'mark' }, column.codec === 'none' ? 'not compressed' : column.codec),
    more.length > 0 && element('details', { class: 'more' }, element('summary', {}, more.join(', ')),
      details.length > 0 && element('dl', { class: 'pairs' }, details.map(([name, value]) => element('div', {},
        element('dt', {}, name), element('dd', {}, String(value))))),
      classes > 0 && element('ol', { class: 'classes', start: '0', tabindex: '0', 'aria-label': `Classes of ${column.name}` },
        column.class_names.slice(0, 200).map((name) => element('li', {}, name))),
      classes > 200 && element('p', {}, `and ${count(classes - 200)} more`)));
}

function fillRow(own, column, dataset) {
  fill(own.present, element('div', {}, count(column.present)),
    column.absent > 0 && element('div', { class: 'quiet' }, `${count(column.absent)} absent`));
  fill(own.ratio, element('div', {}, ratio(column.value_bytes, column.stored_bytes)),
    element('div', { class: 'quiet' }, bytes(column.value_bytes)));
  fill(own.lengths, lengthParts(column));
  fill(own.values, numberParts(column), stringParts(column, dataset));
}

function lengthParts(column) {
  const lengths = column.lengths;
  if (!lengths) return [element('span', { class: 'quiet' }, column.present > 0 ? `fixed, ${fixedSize(column)}` : '–')];
  return [histogram(lengths.histogram, bytes, `Lengths of ${column.name}`),
    element('div', { class: 'chart-ends' }, element('span', {}, bytes(lengths.min)),
      element('span', { title: 'median' }, `~${bytes(lengths.median)}`), element('span', {}, bytes(lengths.max)))];
}

function fixedSize(column) {
  return bytes(Math.round(column.value_bytes / Math.max(1, column.present)));
}

function numberParts(column) {
  const numbers = column.numbers;
  if (!numbers) return [];
  return [histogram(numbers.histogram, number, `Values of ${column.name}`),
    element('div', { class: 'chart-ends' }, element('span', {}, number(numbers.minimum)),
      numbers.mean !== null && element('span', { title: 'mean' }, `⌀ ${number(numbers.mean)}`),
      element('span', {}, number(numbers.maximum)))];
}

/** The most frequent strings; all but two are folded, so that a row keeps its height. */
function stringParts(column, dataset) {
  const strings = column.strings ?? [];
  if (strings.length === 0) return [];
  // Strings that all occur once, such as keys, say nothing by their counts.
  const repeated = strings[0].count > 1;
  const row = (entry) => element('li', {},
    element('a', { href: link(dataset, 'find', null, { where: equalsText(column.name, entry.text) }) },
      entry.text === '' ? '(empty)' : entry.text),
    element('span', { class: 'quiet' }, repeated ? count(entry.count) : ''));
  const distinct = column.distinct === null ? 'More' : `${count(column.distinct)} distinct in the sample`;
  const rest = strings.slice(2);
  return [element('ul', { class: 'frequent' }, strings.slice(0, 2).map(row)), rest.length === 0 ?
    element('div', { class: 'quiet' }, distinct) :
    element('details', { class: 'more' }, element('summary', {}, distinct), element('ul', { class: 'frequent' }, rest.map(row)))];
}

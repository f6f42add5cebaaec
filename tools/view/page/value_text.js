// Texts, and JSON as a tree that is made as it is unfolded.

import { element } from './elements.js';
import { bytes, count } from './format.js';

const mostChildren = 200;  // of an object or array, made at once

/** A text as it is, or as a tree when it is an object or array of JSON, as in many tars. */
export function textValue(column) {
  if (/^\s*[[{]/.test(column.text) && !column.truncated) {
    try {
      return element('div', { class: 'json' }, node(null, JSON.parse(column.text), true));
    } catch {
      // It only begins as JSON does.
    }
  }
  return plainText(column);
}

function plainText(column) {
  const long = column.text.length > 200 || column.text.includes('\n');
  const shown = column.text === '' ? element('span', { class: 'quiet' }, 'empty') : column.text;
  return [long ?
    element('pre', { class: 'text', tabindex: '0', role: 'region', 'aria-label': `Text of ${column.name}` }, column.text) :
    element('p', { class: 'text-short' }, shown),
  truncation(column)];
}

function truncation(column) {
  return column.truncated ? element('p', { class: 'quiet' },
    `The first ${bytes(new Blob([column.text]).size)} of ${bytes(column.length)}. Download it to see the rest.`) : null;
}

/** JSON as a tree; as text when it is cut short or is none. */
export function jsonValue(column) {
  if (column.truncated) return plainText(column);
  let value;
  try {
    value = JSON.parse(column.text);
  } catch (error) {
    return [element('p', { class: 'damaged' }, `not JSON: ${error.message}`), plainText(column)];
  }
  return element('div', { class: 'json' }, node(null, value, true));
}

function node(name, value, open = false) {
  const label = name === null ? null : [element('span', { class: 'json-name' }, String(name)), ': '];
  if (value === null || typeof value !== 'object') {
    const type = value === null ? 'null' : typeof value;
    return element('div', { class: 'json-leaf' }, label,
      element('span', { class: `json-${type}` }, JSON.stringify(value)));
  }
  const isArray = Array.isArray(value);
  const size = isArray ? value.length : Object.keys(value).length;
  if (size === 0) return element('div', { class: 'json-leaf' }, label, isArray ? '[]' : '{}');
  const children = element('div', { class: 'json-children' });
  const summary = element('summary', {}, label,
    element('span', { class: 'quiet' }, isArray ? `[${count(size)}]` : `{${count(size)}}`),
    element('span', { class: 'json-preview quiet' }, ` ${preview(value)}`));
  const details = element('details', {}, summary, children);
  details.addEventListener('toggle', () => unfold(children, value));
  if (open) {
    unfold(children, value);
    details.open = true;
  }
  return details;
}

/** Makes the children, once; very long arrays in parts. */
function unfold(children, value) {
  if (children.childElementCount > 0) return;
  const entries = Object.entries(value);
  const add = (from) => {
    const to = Math.min(entries.length, from + mostChildren);
    for (let i = from; i < to; i++) children.append(node(entries[i][0], entries[i][1]));
    if (to < entries.length) {
      const more = element('button', { type: 'button', class: 'plain', onclick: () => {
        more.remove();
        add(to);
      } }, `${count(entries.length - to)} more`);
      children.append(more);
    }
  };
  add(0);
}

function preview(value) {
  const text = Array.isArray(value) ? value.slice(0, 4).map(brief).join(', ') :
    Object.entries(value).slice(0, 4).map(([name, inner]) => `${name}: ${brief(inner)}`).join(', ');
  return text.slice(0, 120);
}

function brief(value) {
  if (value === null || typeof value !== 'object') return JSON.stringify(value).slice(0, 40);
  return Array.isArray(value) ? '[…]' : '{…}';
}

// The keys that work everywhere, and the list of all keys.

import { element } from './elements.js';
import { link, parseRoute } from './router.js';

const groups = [
  ['Everywhere', [['/', 'search'], ['?', 'these keys'], ['g o', 'overview'], ['g g', 'grid'], ['g f', 'find'],
    ['g r', 'order']]],
  ['Grid', [['← → ↑ ↓', 'move'], ['Page Up, Page Down', 'a screen'], ['Home, End', 'first and last sample'],
    ['Enter', 'open']]],
  ['Sample', [['[ or k, ] or j', 'previous and next sample'], ['Esc', 'back to the grid'],
    ['+ − 0', 'zoom in, out, fit'], ['← → ↑ ↓', 'move the image, when it has the focus']]],
  ['Masks', [['m', 'masks on and off'], ['o', 'outlines only'], ['s', 'one at a time'],
    [', and .', 'previous and next mask'], ['b', 'boxes'], ['p', 'points']]],
];

/** Whether keys belong to what has the focus, as in a text field. */
export function isTyping(event) {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return true;
  if (!(target instanceof Element)) return false;
  if (target.matches('textarea, select')) return true;
  return target.matches('input') && !['checkbox', 'radio', 'button', 'range'].includes(target.type);
}

function makeDialog() {
  const close = element('button', { type: 'button', onclick: () => dialog.close() }, 'Close');
  const parts = groups.map(([title, keys]) => element('section', {}, element('h3', {}, title),
    element('dl', {}, keys.map(([key, text]) => element('div', {},
      element('dt', {}, element('kbd', {}, key)), element('dd', {}, text))))));
  const dialog = element('dialog', { class: 'keys', 'aria-labelledby': 'keys-title' },
    element('div', { class: 'keys-head' }, element('h2', { id: 'keys-title' }, 'Keys'), close),
    element('div', { class: 'keys-groups' }, parts));
  document.body.append(dialog);
  return dialog;
}

/** Listens for the keys of all views. `button` shows the list. */
export function startKeys(button) {
  let dialog = null;
  const help = () => {
    dialog ??= makeDialog();
    if (!dialog.open) dialog.showModal();
  };
  button.addEventListener('click', help);
  let lastG = -Infinity;  // when g was pressed, in milliseconds
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || isTyping(event)) return;
    const views = { o: 'overview', g: 'grid', f: 'find', r: 'order' };
    if (event.timeStamp - lastG < 1000 && views[event.key]) {
      lastG = -Infinity;
      event.preventDefault();
      event.stopImmediatePropagation();
      window.location.hash = link(parseRoute(window.location.hash).dataset, views[event.key]);
      return;
    }
    lastG = event.key === 'g' ? event.timeStamp : -Infinity;
    if (event.key === '?') {
      event.preventDefault();
      help();
    } else if (event.key === '/') {
      event.preventDefault();
      focusSearch();
    }
  });
}

function focusSearch() {
  const candidates = [document.getElementById('find-text'), document.getElementById('search-text')];
  const visible = candidates.find((input) => input && input.offsetParent !== null);
  if (visible) {
    visible.focus();
    visible.select();
  } else {
    window.location.hash = link(parseRoute(window.location.hash).dataset, 'find');
  }
}

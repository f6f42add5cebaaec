// What a view shows while there is nothing else: loading, empty, failed.

import { element, fill } from './elements.js';

/** A quiet line while something is read. It appears after a moment, so that fast replies do not flicker. */
export function loading(text = 'Reading…') {
  return element('p', { class: 'state state-loading', role: 'status' }, text);
}

/** Says that there is nothing, and what to do. */
export function empty(title, advice = '') {
  return element('div', { class: 'state' }, element('p', { class: 'state-title' }, title),
    advice && element('p', {}, advice));
}

/** Says what went wrong. */
export function failure(title, text) {
  return element('div', { class: 'state state-failed', role: 'alert' },
    element('p', { class: 'state-title' }, element('span', { 'aria-hidden': 'true', class: 'sign' }, '!'), title),
    element('p', { class: 'state-text' }, text));
}

/**
 * Runs an asynchronous part of a view, and shows its failure in place of it. A view that was left is no failure.
 * @param {Element} place receives the failure
 * @param {string} title
 * @param {function(): Promise} work
 * @param {AbortSignal} signal
 * @param {Element|null} heading to show above the failure
 */
export async function guarded(place, title, work, signal, heading = null) {
  try {
    await work();
  } catch (error) {
    if (signal.aborted) return;
    if (error.name !== 'AbortError') present(place, heading, failure(title, error.message));
  }
}

/** Shows a view in place of the one before, which stays until then, so that nothing flickers. */
export function present(root, ...children) {
  root.removeAttribute('aria-busy');
  // The style sheet lays the page out for the view that is on it, not for the one that is awaited.
  if (root.dataset.view) document.body.dataset.view = root.dataset.view;
  fill(root, ...children);
}

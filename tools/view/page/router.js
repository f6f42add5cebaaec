// Views have links: #/DATASET, #/DATASET/VIEW, #/DATASET/VIEW/ORDINAL, each with ?name=value.

/**
 * @typedef {Object} Route
 * @property {number} dataset
 * @property {string} view overview, grid, sample, find or order
 * @property {number|null} ordinal
 * @property {URLSearchParams} parameters
 */

const views = ['grid', 'sample', 'find', 'order'];

/**
 * Reads a fragment. What it does not understand is left out, so that every fragment leads somewhere.
 * @param {string} fragment with or without #
 * @returns {Route}
 */
export function parseRoute(fragment) {
  const text = fragment.replace(/^#/, '');
  const mark = text.indexOf('?');
  const path = mark < 0 ? text : text.slice(0, mark);
  const [dataset, view, ordinal] = path.split('/').filter((part) => part !== '');
  return {
    dataset: wholeNumber(dataset) ?? 0,
    view: views.includes(view) ? view : 'overview',
    ordinal: wholeNumber(ordinal),
    parameters: new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1)),
  };
}

function wholeNumber(text) {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/**
 * The fragment of a view.
 * @param {Object} parameters null and '' are left out
 */
export function link(dataset, view = 'overview', ordinal = null, parameters = {}) {
  let path = `#/${dataset}`;
  if (view !== 'overview') path += `/${view}`;
  if (ordinal !== null) path += `/${ordinal}`;
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') search.set(name, value);
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/**
 * Changes the fragment without a step in the history and without showing the view again. Does nothing when the fragment
 * is already that of another view, which the page shows as soon as it is told (the hashchange event comes later).
 */
export function replaceRoute(fragment) {
  const [now, next] = [parseRoute(window.location.hash), parseRoute(fragment)];
  if (now.dataset !== next.dataset || now.view !== next.view) return;
  if (window.location.hash !== fragment) window.history.replaceState(null, '', fragment);
}

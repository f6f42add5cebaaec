// Starts the page: reads the fragment, shows the view, keeps the header true.

import { connection, getJson, retryNow } from './api.js';
import { forgetOverviews } from './datasets.js';
import { element } from './elements.js';
import { startKeys } from './keys.js';
import { link, parseRoute } from './router.js';
import { empty, failure, guarded, loading, present } from './states.js';
import { startTheme } from './theme.js';
import { showFind } from './find.js';
import { showGrid } from './grid.js';
import { showOrder } from './order.js';
import { showOverview } from './overview.js';
import { showSample } from './sample.js';

const tabs = [['overview', 'Overview'], ['grid', 'Grid'], ['find', 'Find'], ['order', 'Order']];
const shows = { overview: showOverview, grid: showGrid, sample: showSample, find: showFind, order: showOrder };

const main = document.getElementById('main');
const banner = document.getElementById('banner');
let datasets = [];
let left = new AbortController();

function showHeader(route) {
  const dataset = datasets[route.dataset];
  document.getElementById('brand').href = link(route.dataset);
  document.getElementById('dataset-name').textContent = datasets.length === 1 ? dataset?.name ?? '' : '';
  document.getElementById('picker-select').value = String(route.dataset);
  const active = route.view === 'sample' ? 'grid' : route.view;
  document.getElementById('tabs').replaceChildren(...tabs.map(([view, title]) => element('a', {
    href: link(route.dataset, view, view === 'grid' ? route.ordinal : null),
    'aria-current': view === active ? (view === route.view ? 'page' : 'true') : null,
  }, title)));
}

function hidden(text) {
  return element('h1', { class: 'unseen' }, text);
}

/** Shows the view of the fragment in place of the one before, whose requests and listeners end. */
function show({ first = false } = {}) {
  left.abort(new DOMException('The view was left.', 'AbortError'));
  left = new AbortController();
  const before = document.body.dataset.view;
  const route = parseRoute(window.location.hash);
  const dataset = datasets[route.dataset];
  const context = { dataset: route.dataset, info: dataset, route, signal: left.signal };
  showHeader(route);
  main.dataset.view = route.view;
  // From sample to sample a person keeps the place and the focus.
  const stays = before === 'sample' && route.view === 'sample';
  if (!stays) window.scrollTo(0, 0);
  if (!dataset) {
    present(main, hidden('No dataset'), empty('There is no such dataset.', 'Choose another in the header.'));
    return;
  }
  document.title = `${dataset.name} · ${route.view} · Shardkit`;
  if (dataset.error) {
    present(main, hidden(dataset.name),
      failure('This dataset cannot be opened.', dataset.error));
    return;
  }
  main.setAttribute('aria-busy', 'true');
  if (!first && !stays) main.focus({ preventScroll: true });
  guarded(main, 'This view cannot be shown.', () => shows[route.view](main, context), left.signal, hidden(dataset.name));
}

function startPicker() {
  const select = document.getElementById('picker-select');
  document.getElementById('picker').hidden = datasets.length < 2;
  for (const dataset of datasets) {
    select.append(element('option', { value: dataset.id }, dataset.error ? `${dataset.name} (cannot be opened)` : dataset.name));
  }
  select.addEventListener('change', () => { window.location.hash = link(Number(select.value)); });
}

function startBanner() {
  const retry = element('button', { type: 'button', onclick: retryNow }, 'Try now');
  connection.addEventListener('lost', () => {
    banner.replaceChildren('The server does not answer. This page tries again by itself. ', retry);
    banner.hidden = false;
  });
  connection.addEventListener('back', () => {
    banner.hidden = true;
    forgetOverviews();
  });
}

function startSearch() {
  const text = document.getElementById('search-text');
  document.getElementById('search').addEventListener('submit', (event) => {
    event.preventDefault();
    const where = text.value.trim();
    if (where === '') return;
    const fragment = link(parseRoute(window.location.hash).dataset, 'find', null, { where });
    text.value = '';
    if (window.location.hash === fragment) show();
    window.location.hash = fragment;
  });
}

async function start() {
  startTheme(document.getElementById('theme'));
  startKeys(document.getElementById('help'));
  startBanner();
  startSearch();
  document.getElementById('skip').addEventListener('click', (event) => {
    event.preventDefault();
    main.focus();
  });
  main.replaceChildren(loading());
  datasets = (await getJson('api/datasets')).datasets;
  startPicker();
  window.addEventListener('hashchange', () => show());
  show({ first: true });
}

// Tests read how long drawing takes.
window.shardkitView = { frameMilliseconds: [] };
start().catch((error) => main.replaceChildren(failure('The datasets cannot be listed.', error.message)));

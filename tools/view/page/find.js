// The view of search: by key, by ordinal, by condition, or at random.

import { apiPath, getJson } from './api.js';
import { cellControls, cellOptions } from './cell_options.js';
import { overviewOf } from './datasets.js';
import { element } from './elements.js';
import { columnList, problemText } from './find_help.js';
import { search } from './find_search.js';
import { count, parseCount, plural } from './format.js';
import { link, replaceRoute } from './router.js';
import { ResultCells } from './result_cells.js';
import { empty, present } from './states.js';
import { Thumbnails } from './thumbnails.js';

const mostAtOnce = 200;  // matches before the search waits to be told to go on

/** Shows the search in `root`, and the results of the route's `where` or `seed`. */
export async function showFind(root, { dataset, info, route, signal }) {
  const overview = await overviewOf(dataset);
  signal.throwIfAborted();
  const view = new FindView(dataset, overview, signal);
  const seed = route.parameters.get('seed');
  view.text.value = route.parameters.get('where') ?? '';
  if (seed !== null) view.seed.value = seed;
  present(root, element('div', { class: 'page' }, element('h1', {}, 'Find'),
    element('p', { class: 'unseen' }, `in ${info.name}`), view.node));
  if (view.text.value !== '') {
    await view.find();
  } else if (seed !== null) {
    await view.random();
  } else {
    view.text.focus();
  }
}

class FindView {
  #running = new AbortController();
  #again = () => {};

  constructor(dataset, overview, signal) {
    this.dataset = dataset;
    this.overview = overview;
    this.signal = signal;
    this.options = cellOptions(dataset, overview);
    this.thumbnails = new Thumbnails(dataset, signal);
    signal.addEventListener('abort', () => this.#running.abort(), { once: true });
    this.text = element('input', { type: 'search', id: 'find-text', class: 'find-text', autocomplete: 'off',
      spellcheck: 'false', maxlength: '65536', 'aria-describedby': 'find-advice find-problem', 'aria-label': 'Key, ordinal or condition',
      placeholder: 'Key, ordinal or condition' });
    this.seed = element('input', { type: 'text', inputmode: 'numeric', class: 'short', value: '0', autocomplete: 'off' });
    this.problem = element('div', { id: 'find-problem', role: 'alert' });
    this.status = element('p', { class: 'find-status', role: 'status' });
    this.stop = element('button', { type: 'button', hidden: true, onclick: () => this.#running.abort() }, 'Stop');
    this.more = element('button', { type: 'button', hidden: true }, 'Go on');
    this.results = element('div', { class: 'find-results' });
    this.node = element('div', { class: 'find' }, this.#forms(), columnList(overview.columns, this.text));
  }

  #forms() {
    const submit = (act) => (event) => {
      event.preventDefault();
      act();
    };
    const code = (text) => element('code', {}, text);
    const find = submit(() => {
      if (this.text.value.trim() !== '') this.#routed(() => this.find(), { where: this.text.value });
    });
    const random = submit(() => this.#routed(() => this.random(), { seed: this.seed.value }));
    return element('div', { class: 'find-main' },
      element('form', { class: 'find-form', onsubmit: find }, this.text,
        element('button', { type: 'submit', class: 'primary' }, 'Find')),
      element('p', { id: 'find-advice', class: 'quiet' }, 'A key such as ', code('sa_1'), ', an ordinal such as ',
        code('1,000'), ', or a condition such as ', code('width >= 1024 and key ~ "sa_1*"')),
      this.problem,
      element('div', { class: 'toolbar' }, element('form', { class: 'inline', onsubmit: random },
        element('label', { class: 'field' }, element('span', {}, 'Seed'), this.seed),
        element('button', { type: 'submit' }, 'Random samples')),
      cellControls(this.overview, this.options, () => this.#again())),
      element('div', { class: 'find-progress' }, this.status, this.stop, this.more), this.results);
  }

  /** Runs a search, and gives it an address. */
  #routed(run, parameters) {
    replaceRoute(link(this.dataset, 'find', null, parameters));
    run();
  }

  #begin(again) {
    this.#running.abort();
    this.#running = new AbortController();
    this.#again = again;
    this.enough = mostAtOnce;
    this.problem.replaceChildren();
    this.status.textContent = '';
    this.more.hidden = true;
    this.stop.hidden = true;
    this.cells?.clear();
    this.cells = new ResultCells(this.options, this.thumbnails, 'Samples found', this.signal);
    this.results.replaceChildren(this.cells.node);
    return this.#running.signal;
  }

  #columns() {
    return { captions: this.options.captions, image: this.options.image };
  }

  /** Looks for the text of the search box. */
  async find() {
    const signal = this.#begin(() => this.find());
    const text = this.text.value.trim();
    this.stop.hidden = false;
    this.status.textContent = 'Looking…';
    try {
      await search(this.dataset, text, this.#columns(), { signal, found: (rows) => this.cells.add(rows),
        progress: (state) => this.#progress(state), pause: () => this.#pause(signal) });
      this.#ended();
    } catch (error) {
      this.#failed(error, text, signal);
    } finally {
      if (!signal.aborted) this.stop.hidden = true;
    }
  }

  #progress({ scanned, samples }) {
    const matches = plural(this.cells.size, 'match', 'matches');
    this.status.textContent = `${matches} in ${count(scanned)} of ${plural(samples, 'sample')}`;
  }

  /** Waits, when there are many matches on the page, until a person wants more. */
  async #pause(signal) {
    if (this.cells.size < this.enough) return;
    this.stop.hidden = true;
    this.more.hidden = false;
    await new Promise((resolve, reject) => {
      this.more.onclick = resolve;
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    this.enough = this.cells.size + mostAtOnce;
    this.more.hidden = true;
    this.stop.hidden = false;
  }

  #ended() {
    if (this.cells.size > 0) return;
    this.results.replaceChildren(empty('No sample matches.',
      'The list of columns says what a condition can name, and what it can do with it.'));
  }

  #failed(error, text, signal) {
    if (this.signal.aborted || signal !== this.#running.signal) return;
    this.stop.hidden = true;
    this.more.hidden = true;
    if (signal.aborted) {
      this.status.textContent += ', stopped';
      return;
    }
    this.status.textContent = '';
    this.problem.replaceChildren(problemText(text, error));
    this.text.setAttribute('aria-invalid', 'true');
    this.text.addEventListener('input', () => this.text.removeAttribute('aria-invalid'), { once: true });
  }

  /** Shows random samples of the seed. */
  async random() {
    const signal = this.#begin(() => this.random());
    const seed = parseCount(this.seed.value) ?? 0;
    try {
      const { ordinals } = await getJson(apiPath(this.dataset, 'random', { seed, count: 48 }), signal);
      const rows = await Promise.all(ordinals.map(async (ordinal) => (await getJson(apiPath(this.dataset, 'samples',
        { first: ordinal, count: 1, ...this.#columns() }), signal)).rows));
      this.cells.add(rows.flat());
      this.status.textContent = `${plural(this.cells.size, 'random sample')} of seed ${seed}`;
    } catch (error) {
      this.#failed(error, '', signal);
    }
  }
}

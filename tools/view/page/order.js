// The view of the order in which a loader delivers samples.

import { apiPath, getJson } from './api.js';
import { cellControls, cellOptions } from './cell_options.js';
import { overviewOf } from './datasets.js';
import { element, labelledSelect } from './elements.js';
import { count, parseCount, plural } from './format.js';
import { link, replaceRoute } from './router.js';
import { ResultCells } from './result_cells.js';
import { shufflePicture } from './scatter.js';
import { guarded, empty, failure, present } from './states.js';
import { Thumbnails } from './thumbnails.js';

const numbers = [['seed', 'Seed', 0], ['epoch', 'Epoch', 0], ['world_size', 'World size', 1], ['rank', 'Rank', 0],
  ['batch_size', 'Batch size', 32], ['step', 'Step', 0]];

/** Shows the order in `root`, with the parameters of the route. */
export async function showOrder(root, { dataset, info, route, signal }) {
  const overview = await overviewOf(dataset);
  signal.throwIfAborted();
  const view = new OrderView(dataset, overview, route.parameters, signal);
  present(root, element('div', { class: 'page' }, element('h1', {}, 'Order'),
    element('p', { class: 'unseen' }, `of ${info.name}`), view.node));
  await view.read();
}

class OrderView {
  #running = new AbortController();
  #pictured = '';

  constructor(dataset, overview, parameters, signal) {
    Object.assign(this, { dataset, overview, signal });
    this.options = cellOptions(dataset, overview);
    this.thumbnails = new Thumbnails(dataset, signal);
    this.inputs = new Map(numbers.map(([name, label, standard]) => [name, element('input', { type: 'text',
      inputmode: 'numeric', class: 'short', id: `order-${name}`, autocomplete: 'off', 'data-label': label,
      value: parseCount(parameters.get(name) ?? '') ?? standard })]));
    this.order = parameters.get('order') === 'sequential' ? 'sequential' : 'shuffled';
    this.status = element('p', { class: 'find-status', role: 'status' });
    this.results = element('div', {});
    this.picture = element('div', { class: 'shuffle' });
    this.previous = element('button', { type: 'button', onclick: () => this.#step(-1) }, '← Step');
    this.next = element('button', { type: 'button', onclick: () => this.#step(1) }, 'Step →');
    const form = element('form', { class: 'order-form', onsubmit: (event) => {
      event.preventDefault();
      this.read();
    } }, [...this.inputs.values()].map((input) => element('label', { class: 'field' },
      element('span', {}, input.dataset.label), input)),
    labelledSelect('Order', ['shuffled', 'sequential'].map((name) => ({ value: name, text: name })), this.order, (value) => {
      this.order = value;
      this.read();
    }), element('button', { type: 'submit', class: 'primary' }, 'Show'));
    this.node = element('div', { class: 'order' }, form, element('div', { class: 'order-parts' },
      element('section', { 'aria-labelledby': 'step-title' }, element('div', { class: 'toolbar' },
        element('h2', { id: 'step-title' }, 'Samples of the step'), this.status, this.previous, this.next,
        cellControls(overview, this.options, () => this.read())), this.results),
      element('section', { 'aria-labelledby': 'shuffle-title' },
        element('h2', { id: 'shuffle-title' }, 'The shuffle'), this.picture)));
  }

  #step(places) {
    const input = this.inputs.get('step');
    input.value = Math.max(0, (parseCount(input.value) ?? 0) + places);
    this.read();
  }

  #values() {
    const values = { order: this.order };
    for (const [name, input] of this.inputs) {
      values[name] = parseCount(input.value);
      input.toggleAttribute('aria-invalid', false);
      if (values[name] === null) {
        input.setAttribute('aria-invalid', 'true');
        throw new Error(`${input.dataset.label} is a whole number.`);
      }
    }
    return values;
  }

  /** Reads the samples of the step, and the picture when the order has another one. */
  async read() {
    this.#running.abort();
    this.#running = new AbortController();
    const { signal } = this.#running;
    this.signal.addEventListener('abort', () => this.#running.abort(), { once: true });
    this.cells?.clear();
    try {
      const values = this.#values();
      replaceRoute(link(this.dataset, 'order', null, values));
      this.#readPicture(values);
      this.status.textContent = 'Reading…';
      const { captions, image } = this.options;
      const reply = await getJson(apiPath(this.dataset, 'order', { ...values, captions, image }), signal);
      this.#fill(reply, values);
    } catch (error) {
      if (signal.aborted) return;
      this.status.textContent = '';
      this.results.replaceChildren(failure('There is no such step.', error.message));
    }
  }

  #fill(reply, values) {
    this.cells = new ResultCells(this.options, this.thumbnails, 'Samples in the order of delivery', this.signal);
    this.cells.add(reply.rows);
    this.previous.disabled = reply.step <= 0;
    this.next.disabled = reply.step + 1 >= reply.steps;
    const shown = reply.batch > reply.rows.length ? `, the first ${count(reply.rows.length)} are shown` : '';
    const rank = `rank ${count(values.rank)} of ${count(values.world_size)}`;
    this.status.textContent = `step ${count(reply.step)} of ${count(reply.steps)}, ${rank}: ` +
      `${plural(reply.batch, 'sample')}${shown}; ${count(reply.samples_per_epoch)} an epoch`;
    this.results.replaceChildren(reply.rows.length === 0 ? empty('This step has no samples.') : this.cells.node);
  }

  #readPicture({ seed, epoch, order }) {
    const wanted = JSON.stringify([seed, epoch, order]);
    if (wanted === this.#pictured) return;
    this.#pictured = wanted;
    guarded(this.picture, 'The shuffle cannot be shown.', async () => {
      const shuffle = await getJson(apiPath(this.dataset, 'shuffle', { seed, epoch, order }), this.signal);
      if (wanted === this.#pictured) this.picture.replaceChildren(...shufflePicture(shuffle, this.signal));
    }, this.signal);
  }
}

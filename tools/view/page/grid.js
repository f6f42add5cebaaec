// The view of all samples as a grid.

import { cellControls, cellOptions } from './cell_options.js';
import { followGrowth, overviewOf } from './datasets.js';
import { announce, element } from './elements.js';
import { count, parseCount, plural } from './format.js';
import { link, replaceRoute } from './router.js';
import { Rows } from './rows.js';
import { empty, guarded, present } from './states.js';
import { Thumbnails } from './thumbnails.js';
import { VirtualGrid } from './virtual_grid.js';

/** Shows the grid in `root`, at the ordinal of the route. */
export async function showGrid(root, { dataset, info, route, signal }) {
  const overview = await overviewOf(dataset);
  signal.throwIfAborted();
  const options = cellOptions(dataset, overview);
  const total = element('p', { class: 'grid-count', role: 'status' });
  const rows = new Rows(dataset, signal, () => grid.draw());
  let settled = 0;
  const grid = new VirtualGrid({ rows, signal, thumbnails: new Thumbnails(dataset, signal), onPlace: (ordinal) => {
    // Browsers refuse to change the address many times a second.
    clearTimeout(settled);
    settled = setTimeout(() => {
      if (!signal.aborted) replaceRoute(link(dataset, 'grid', ordinal));
    }, 250);
  } });
  const choose = (chosen) => {
    rows.choose({ captions: chosen.captions, image: chosen.image });
    grid.choose(chosen);
  };
  const none = empty('This dataset has no samples.', 'What is appended to it appears here.');
  const setSamples = (samples, complete) => {
    if (samples !== grid.samples) rows.grown(grid.samples);
    grid.setSamples(samples);
    none.hidden = samples > 0 || !complete;
    // Digits that are added must not move what stands beside them.
    if (!complete) total.classList.add('counting');
    total.textContent = complete ? plural(samples, 'sample') : `${plural(samples, 'sample')} so far, counting…`;
  };
  present(root, element('h1', { class: 'unseen' }, `Samples of ${info.name}`),
    element('div', { class: 'toolbar' }, total, goToForm(grid), cellControls(overview, options, choose)), none, grid.node);
  choose(options);
  setSamples(overview.samples, overview.complete);
  const wanted = route.ordinal ?? 0;
  if (grid.samples > 0) grid.goTo(wanted, { centre: true });
  let waits = wanted >= overview.samples;
  guarded(element('div'), '', () => followGrowth(dataset, (state) => {
    setSamples(state.samples, state.complete);
    if (waits && (wanted < state.samples || state.complete) && state.samples > 0) {
      waits = false;
      grid.goTo(wanted, { centre: true, focus: false });
    }
    if (state.error) {
      total.textContent = `${plural(state.samples, 'sample')}, then damaged: ${state.error}`;
      total.classList.add('damaged');
    }
  }, signal), signal);
}

function goToForm(grid) {
  const input = element('input', { type: 'text', inputmode: 'numeric', class: 'go-to', autocomplete: 'off',
    placeholder: '0', 'aria-describedby': 'go-to-problem' });
  const problem = element('span', { class: 'damaged', id: 'go-to-problem', role: 'status' });
  return element('form', { class: 'inline', onsubmit: (event) => {
    event.preventDefault();
    const ordinal = parseCount(input.value);
    if (ordinal === null || ordinal >= grid.samples) {
      problem.textContent = `0 to ${count(Math.max(0, grid.samples - 1))}`;
      return;
    }
    problem.textContent = '';
    grid.goTo(ordinal, { centre: true });
    announce(`Sample ${count(ordinal)}`);
  } }, element('label', { class: 'field' }, element('span', {}, 'Go to'), input),
  element('button', { type: 'submit' }, 'Go'), problem);
}

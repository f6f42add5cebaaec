// The view of a dataset as a whole.

import { overviewOf, followGrowth } from './datasets.js';
import { announce, element } from './elements.js';
import { bytes, count, plural } from './format.js';
import { columnTable } from './overview_columns.js';
import { followStatistics } from './overview_statistics.js';
import { link } from './router.js';
import { guarded, present } from './states.js';

/** Shows the overview in `root`. */
export async function showOverview(root, { dataset, signal }) {
  const overview = await overviewOf(dataset);
  signal.throwIfAborted();
  const samples = element('dd', {}, count(overview.samples));
  const facts = element('dl', { class: 'facts' },
    element('div', {}, element('dt', {}, 'samples'), samples),
    fact('stored', bytes(overview.bytes)),
    fact(overview.container === 'webdataset' ? 'tars' : 'shards', count(overview.shards)),
    fact('blocks', overview.blocks > 0 ? count(overview.blocks) : '–'),
    fact('generation', overview.generation === null ? '–' : count(overview.generation)),
    fact('columns', count(overview.columns.length)));
  const columns = columnTable(dataset, overview);
  present(root, element('div', { class: 'page' },
    element('div', { class: 'page-head' },
      element('div', {}, element('h1', {}, overview.name),
        overview.path !== overview.name && element('p', { class: 'path' }, overview.path)),
      element('a', { class: 'button primary', href: link(dataset, 'grid', 0) }, 'Look at samples')),
    facts,
    notes(overview),
    element('section', { 'aria-labelledby': 'columns-title' },
      element('h2', { id: 'columns-title' }, 'Columns'), columns.status, columns.node),
    history(overview),
    columnFiles(overview),
    metadata('Metadata', overview.metadata)));
  if (!overview.complete) {
    guarded(element('div'), '', () => followGrowth(dataset, (state) => {
      samples.textContent = state.complete ? count(state.samples) : `${count(state.samples)} so far`;
      if (state.error) announce(state.error);
    }, signal), signal);
  }
  await followStatistics(dataset, columns, signal);
}

function fact(name, value) {
  return element('div', {}, element('dt', {}, name), element('dd', {}, value));
}

function notes(overview) {
  const lines = [];
  if (overview.container && overview.container !== 'shard') {
    lines.push(`Read as it is: container ${overview.container}.`);
  }
  if (overview.index?.problem) {
    lines.push(`The offset index is not used: ${overview.index.problem}`);
  } else if (overview.index && !overview.index.used) {
    lines.push('There is no offset index: each sample costs a second read.');
  }
  return lines.length === 0 ? null : element('ul', { class: 'notes' }, lines.map((line) => element('li', {}, line)));
}

function history(overview) {
  if (!overview.generations || overview.generations.length === 0) return null;
  const rows = overview.generations.map((generation) => element('tr', {},
    element('th', { scope: 'row', class: 'number' }, count(generation.generation)),
    element('td', {}, generation.text),
    element('td', { class: 'number' }, generation.samples === null ? '–' : count(generation.samples)),
    element('td', { class: 'number' }, generation.bytes === null ? '–' : bytes(generation.bytes)),
    element('td', {}, generation.readable ? 'can be read' : 'gone')));
  return element('section', { 'aria-labelledby': 'generations-title' },
    element('h2', { id: 'generations-title' }, 'Generations'),
    element('div', { class: 'table-frame', tabindex: '0', role: 'region', 'aria-label': 'Table of generations' },
      element('table', { class: 'generations' }, element('thead', {}, element('tr', {},
        element('th', { scope: 'col', class: 'number' }, 'Generation'), element('th', { scope: 'col' }, 'Change'),
        element('th', { scope: 'col', class: 'number' }, 'Samples'), element('th', { scope: 'col', class: 'number' }, 'Bytes'),
        element('th', { scope: 'col' }, 'State'))), element('tbody', {}, rows))));
}

function columnFiles(overview) {
  if (!overview.column_files || overview.column_files.length === 0) return null;
  return element('section', { 'aria-labelledby': 'files-title' }, element('h2', { id: 'files-title' }, 'Column files'),
    element('dl', { class: 'pairs' }, overview.column_files.map((file) => element('div', {},
      element('dt', {}, file.name),
      element('dd', {}, `${plural(file.columns.length, 'column')}: ${file.columns.join(', ')}`)))));
}

function metadata(title, values) {
  const entries = Object.entries(values ?? {});
  if (entries.length === 0) return null;
  return element('section', { 'aria-labelledby': 'metadata-title' }, element('h2', { id: 'metadata-title' }, title),
    element('dl', { class: 'pairs' }, entries.map(([name, value]) => element('div', {},
      element('dt', {}, name), element('dd', {}, typeof value === 'string' ? value : JSON.stringify(value))))));
}

// Follows the statistics, which the server calculates in the background.

import { apiPath, getJson, sleep } from './api.js';
import { element } from './elements.js';
import { percent } from './format.js';

/**
 * Polls until the statistics are done, and shows them as they come.
 * @param {number} dataset
 * @param {{status: Element, fill: function(Object)}} table of overview_columns.js
 * @param {AbortSignal} signal
 */
export async function followStatistics(dataset, table, signal) {
  const bar = element('progress', { max: '1', value: '0', 'aria-label': 'Progress of the statistics' });
  const text = element('span', {}, 'Reading statistics…');
  table.status.replaceChildren(bar, text);
  for (;;) {
    const statistics = await getJson(apiPath(dataset, 'statistics'), signal);
    table.fill(statistics);
    if (statistics.state === 'failed') {
      table.status.replaceChildren(element('span', { class: 'damaged' }, `No statistics: ${statistics.error}`));
      return;
    }
    if (statistics.state === 'done') {
      table.status.replaceChildren(element('span', {}, sentence(statistics)));
      return;
    }
    bar.value = statistics.progress;
    text.textContent = `Reading statistics, ${percent(statistics.progress)}`;
    await sleep(500, signal);
  }
}

function sentence(statistics) {
  const source = statistics.source ?? '';
  const start = source.charAt(0).toUpperCase() + source.slice(1);
  return statistics.exact ? `${start}.` : `${start}. All of it is of the sampled blocks only.`;
}

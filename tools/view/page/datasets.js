// What the views ask of a dataset more than once.

import { apiPath, getJson, sleep } from './api.js';

const overviews = new Map();

/**
 * The reply of /overview, kept for as long as the page is open.
 * @param {number} dataset
 * @returns {Promise<Object>}
 */
export function overviewOf(dataset) {
  if (!overviews.has(dataset)) {
    const reply = getJson(apiPath(dataset, 'overview'));
    overviews.set(dataset, reply);
    reply.catch(() => overviews.delete(dataset));
  }
  return overviews.get(dataset);
}

/** Forgets what is kept, because the dataset may have changed. */
export function forgetOverviews() {
  overviews.clear();
}

/**
 * Follows a dataset whose samples may still be counted, until they are.
 * @param {number} dataset
 * @param {function({samples: number, complete: boolean, error: string|null})} onState called about once a second
 * @param {AbortSignal} signal
 */
export async function followGrowth(dataset, onState, signal) {
  for (let grown = false; ; grown = true) {
    const state = await getJson(apiPath(dataset, 'state'), signal);
    onState(state);
    if (state.complete) {
      if (grown) overviews.delete(dataset);
      return;
    }
    await sleep(1000, signal);
  }
}

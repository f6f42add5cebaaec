// Decides what a text of the search box means, and looks for it.

import { ApiError, apiPath, getJson } from './api.js';
import { parseCount } from './format.js';
import { looksLikeCondition } from './predicate_text.js';

/**
 * @param {number} dataset
 * @param {string} text a key, an ordinal or a condition
 * @param {{captions: string[], image: string|null}} columns of the rows
 * @param {Object} listener
 * @param {AbortSignal} listener.signal stops it
 * @param {function(Object[])} listener.found called with rows as they come
 * @param {function({scanned: number, samples: number})} listener.progress
 * @param {function(): Promise} listener.pause called between requests
 */
export async function search(dataset, text, columns, listener) {
  if (looksLikeCondition(text)) {
    await byCondition(dataset, text, columns, listener);
    return;
  }
  const { signal } = listener;
  const ordinals = new Set();
  const byKey = await getJson(apiPath(dataset, 'find', { key: text }), signal);
  if (byKey.ordinal !== null) ordinals.add(byKey.ordinal);
  const ordinal = parseCount(text);
  if (ordinal !== null) ordinals.add(ordinal);
  for (const first of ordinals) {
    const reply = await getJson(apiPath(dataset, 'samples', { first, count: 1, ...columns }), signal);
    listener.found(reply.rows);
    listener.progress({ scanned: reply.samples, samples: reply.samples });
  }
  if (ordinals.size > 0) return;
  try {
    await byCondition(dataset, text, columns, listener);
  } catch (error) {
    if (error.status !== 400) throw error;
    throw new ApiError(error.status, `No sample has the key “${text}”, and it is no condition: ${error.message}`);
  }
}

async function byCondition(dataset, where, columns, { signal, found, progress, pause }) {
  let from = 0;
  let scanned = 0;
  while (from !== null) {
    const reply = await getJson(apiPath(dataset, 'find', { where, from, ...columns }), signal);
    found(reply.matches);
    // A reply says either how far it came or where to go on.
    scanned = reply.next ?? reply.samples;
    progress({ scanned, samples: reply.samples });
    from = reply.next;
    if (from !== null) await pause();
  }
}

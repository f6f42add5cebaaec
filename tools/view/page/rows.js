// Reads the rows of samples in pages, those on the screen only, and keeps the pages seen last.

import { apiPath, getJson } from './api.js';

const pageSize = 64;  // samples
const keptPages = 40;

export class Rows {
  #pages = new Map();  // number of the page: {rows, stop}, the least recently used first
  #columns = {};

  /**
   * @param {number} dataset
   * @param {AbortSignal} signal
   * @param {function()} onRows called when rows arrived or could not be read
   */
  constructor(dataset, signal, onRows) {
    this.dataset = dataset;
    this.signal = signal;
    this.onRows = onRows;
    signal.addEventListener('abort', () => this.clear(), { once: true });
  }

  /** Reads other columns from now on. @param {{captions: string[], image: string|null}} columns */
  choose(columns) {
    this.clear();
    this.#columns = columns;
  }

  /** Forgets all pages and ends their requests. */
  clear() {
    for (const page of this.#pages.values()) page.stop.abort();
    this.#pages.clear();
  }

  /** Forgets pages that ended before the dataset did, because it grew. @param {number} samples that there were */
  grown(samples) {
    const page = Math.floor(samples / pageSize);
    this.#pages.get(page)?.stop.abort();
    this.#pages.delete(page);
  }

  /** The row of a sample, or null when it is not read yet. */
  get(ordinal) {
    const page = this.#pages.get(Math.floor(ordinal / pageSize));
    if (page?.error) return { ordinal, key: null, captions: [], image: false, error: page.error };
    return page?.rows?.[ordinal % pageSize] ?? null;
  }

  /**
   * Reads what is missing of a range of samples. Requests for other pages end, and those that failed are forgotten: who
   * comes back tries again.
   */
  want(first, end) {
    const from = Math.floor(first / pageSize);
    const to = Math.floor(Math.max(first, end - 1) / pageSize);
    for (const [number, page] of this.#pages) {
      if (page.rows === null && (number < from || number > to)) {
        page.stop.abort();
        this.#pages.delete(number);
      }
    }
    for (let number = from; number <= to; number++) {
      const page = this.#pages.get(number);
      if (page) {
        this.#pages.delete(number);
        this.#pages.set(number, page);
      } else {
        this.#read(number);
      }
    }
    for (const number of this.#pages.keys()) {
      if (this.#pages.size <= keptPages) break;
      this.#pages.delete(number);
    }
  }

  async #read(number) {
    const page = { rows: null, error: null, stop: new AbortController() };
    this.#pages.set(number, page);
    const path = apiPath(this.dataset, 'samples', { first: number * pageSize, count: pageSize, ...this.#columns });
    try {
      page.rows = (await getJson(path, page.stop.signal)).rows;
    } catch (error) {
      if (page.stop.signal.aborted) return;
      page.error = error.message;
    }
    this.onRows();
  }
}

// Fetches thumbnails, a few at once, the newest wishes first, and stops fetching what scrolled away.

import { apiPath, errorOf, request, sleep } from './api.js';

// Browsers open six connections to a server; one stays free for the rows.
const atOnce = 5;
const kept = 500;  // thumbnails that can be shown again without a request

export class Thumbnails {
  #waiting = [];
  #running = 0;
  #urls = new Map();  // path: object URL, the least recently used first

  /** @param {number} dataset  @param {AbortSignal} signal ends everything and frees the images */
  constructor(dataset, signal) {
    this.dataset = dataset;
    this.signal = signal;
    signal.addEventListener('abort', () => {
      for (const url of this.#urls.values()) URL.revokeObjectURL(url);
      this.#urls.clear();
    }, { once: true });
  }

  /**
   * Asks for a thumbnail.
   * @param {number} ordinal
   * @param {string} column
   * @param {number} size in pixels, of both sides at most
   * @param {function({url?: string, error?: string, absent?: boolean})} done called once unless cancelled
   * @returns {function()} cancels
   */
  ask(ordinal, column, size, done) {
    const path = apiPath(this.dataset, `thumbnail/${ordinal}`, { column, size });
    const url = this.#urls.get(path);
    if (url) {
      this.#urls.delete(path);
      this.#urls.set(path, url);
      done({ url });
      return () => {};
    }
    const wish = { path, done, stop: new AbortController() };
    this.#waiting.push(wish);
    this.#next();
    return () => wish.stop.abort();
  }

  #next() {
    while (this.#running < atOnce && this.#waiting.length > 0) {
      const wish = this.#waiting.shift();
      if (wish.stop.signal.aborted || this.signal.aborted) continue;
      this.#running += 1;
      this.#fetch(wish).finally(() => {
        this.#running -= 1;
        this.#next();
      });
    }
  }

  async #fetch(wish) {
    const signal = wish.stop.signal;
    try {
      const result = await this.#read(wish.path, signal);
      if (!signal.aborted && !this.signal.aborted) wish.done(result);
    } catch (error) {
      if (!signal.aborted && !this.signal.aborted) wish.done({ error: error.message });
    }
  }

  async #read(path, signal) {
    for (let pause = 200; ; pause = Math.min(2 * pause, 2000)) {
      const response = await request(path, signal);
      if (response.ok) return { url: this.#keep(path, await response.blob()) };
      if (response.status === 404) return { absent: true };
      if (response.status !== 503) return { error: (await errorOf(response)).message };
      await response.body?.cancel();
      await sleep(pause, signal);
    }
  }

  #keep(path, blob) {
    const url = URL.createObjectURL(blob);
    if (this.signal.aborted) return url;
    this.#urls.set(path, url);
    while (this.#urls.size > kept) {
      const [oldest, old] = this.#urls.entries().next().value;
      this.#urls.delete(oldest);
      URL.revokeObjectURL(old);
    }
    return url;
  }
}

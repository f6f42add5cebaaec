// A list of cells of known rows, as found or in the order of delivery. Thumbnails are read as the cells come into sight.

import { Cell, cellHeight } from './cells.js';
import { element } from './elements.js';

export class ResultCells {
  /**
   * @param {CellOptions} options
   * @param {Thumbnails} thumbnails
   * @param {string} label of the list
   * @param {AbortSignal} signal
   */
  constructor(options, thumbnails, label, signal) {
    this.options = options;
    this.thumbnails = thumbnails;
    this.node = element('ul', { class: 'results', 'aria-label': label });
    this.node.style.setProperty('--cell-width', `${options.image === null ? 220 : options.size + 16}px`);
    this.cells = new Map();  // element: {cell, row}
    this.observer = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: '300px' });
    signal.addEventListener('abort', () => this.#release(), { once: true });
    this.node.addEventListener('keydown', (event) => this.#pressed(event));
  }

  /** Appends rows of the server. */
  add(rows) {
    const height = `${cellHeight(this.options)}px`;
    for (const row of rows) {
      const item = element('li', {});
      item.style.height = height;
      this.cells.set(item, { row, cell: null });
      this.node.append(item);
      this.observer.observe(item);
    }
  }

  get size() {
    return this.cells.size;
  }

  #release() {
    this.observer.disconnect();
    for (const { cell } of this.cells.values()) cell?.release();
  }

  /** Empties the list for good. */
  clear() {
    this.#release();
    this.cells.clear();
    this.node.replaceChildren();
  }

  #seen(entries) {
    for (const entry of entries) {
      const own = this.cells.get(entry.target);
      if (!own) continue;
      if (entry.isIntersecting && own.cell === null) {
        own.cell = new Cell(own.row.ordinal, this.options, this.thumbnails);
        own.cell.link.tabIndex = 0;
        own.cell.fill(own.row);
        entry.target.replaceChildren(own.cell.link);
      } else if (!entry.isIntersecting && own.cell !== null && !entry.target.contains(document.activeElement)) {
        own.cell.release();
        own.cell = null;
        entry.target.replaceChildren();
      }
    }
  }

  #pressed(event) {
    const item = document.activeElement?.closest('li');
    if (!item || !this.cells.has(item) || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = [...this.node.children];
    const perRow = Math.max(1, items.findIndex((other) => other.offsetTop > items[0].offsetTop));
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perRow, ArrowDown: perRow };
    const target = steps[event.key] === undefined ? null : items[items.indexOf(item) + steps[event.key]];
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView({ block: 'nearest' });
    const own = this.cells.get(target);
    if (own.cell === null) this.#seen([{ target, isIntersecting: true }]);
    target.querySelector('a').focus({ preventScroll: true });
  }
}

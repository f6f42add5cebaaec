// A grid of any number of samples, of which only the rows near the screen exist.

import { Cell, cellHeight } from './cells.js';
import { element } from './elements.js';
import { ScrollModel } from './scroll_model.js';

const gap = 12;       // CSS pixels between cells
const overscan = 2;   // rows above and below the screen

export class VirtualGrid {
  #model = new ScrollModel();
  #rows = new Map();  // number of the row: {node, cells}
  #frame = 0;
  #idle = 0;
  #columns = 1;
  #rowHeight = 100;
  #focused = 0;       // ordinal of the cell that the keys move

  /**
   * @param {Object} parts
   * @param {Rows} parts.rows
   * @param {Thumbnails} parts.thumbnails
   * @param {AbortSignal} parts.signal
   * @param {function(number)} parts.onPlace called with the focused ordinal, when it changed
   */
  constructor({ rows, thumbnails, signal, onPlace }) {
    this.rows = rows;
    this.thumbnails = thumbnails;
    this.onPlace = onPlace;
    this.samples = 0;
    this.area = element('div', { class: 'grid-area', role: 'presentation' });
    this.node = element('div', { class: 'grid', role: 'grid', 'aria-label': 'Samples', tabindex: '-1' }, this.area);
    this.node.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    this.node.addEventListener('keydown', (event) => this.#pressed(event));
    this.node.addEventListener('focusin', (event) => this.#focusIn(event));
    const observer = new ResizeObserver(() => this.layout());
    observer.observe(this.node);
    signal.addEventListener('abort', () => {
      observer.disconnect();
      cancelAnimationFrame(this.#frame);
      clearTimeout(this.#idle);
      // The cells stay to be seen until the next view is there.
      for (const row of this.#rows.values()) for (const cell of row.cells) cell.release();
    }, { once: true });
  }

  get focused() {
    return this.#focused;
  }

  /** Shows cells with other options, at the same sample. */
  choose(options) {
    this.options = options;
    this.#dropAll();
    this.layout();
  }

  /** Takes the number of samples, which may grow; the place stays. */
  setSamples(samples) {
    if (samples === this.samples) return;
    this.samples = samples;
    this.layout();
  }

  /** Calculates columns and heights from the width that there is. */
  layout() {
    const width = this.node.clientWidth - 2 * gap;
    if (!this.options || width <= 0) return;
    const wanted = this.options.image === null ? 220 : this.options.size + 16;
    const columns = Math.max(1, Math.floor((width + gap) / (wanted + gap)));
    const rowHeight = cellHeight(this.options) + gap;
    const anchor = Math.floor(this.#model.position / this.#rowHeight) * this.#columns;
    const within = this.#model.position % this.#rowHeight;
    if (columns !== this.#columns || rowHeight !== this.#rowHeight) this.#dropAll();
    const same = columns === this.#columns && rowHeight === this.#rowHeight;
    this.#columns = columns;
    this.#rowHeight = rowHeight;
    const rowCount = Math.ceil(this.samples / columns);
    this.#model.resize(rowCount * rowHeight + gap, this.node.clientHeight);
    if (!same) this.#model.position = Math.min(this.#model.limit, Math.floor(anchor / columns) * rowHeight + within);
    this.node.setAttribute('aria-rowcount', rowCount);
    this.node.setAttribute('aria-colcount', columns);
    this.node.style.setProperty('--columns', columns);
    this.area.style.height = `${this.#model.areaHeight}px`;
    this.#settle();
    this.draw();
  }

  /** Moves the focus to a sample and makes its cell seen. */
  goTo(ordinal, { focus = true, centre = false } = {}) {
    this.#focused = Math.max(0, Math.min(this.samples - 1, ordinal));
    const top = Math.floor(this.#focused / this.#columns) * this.#rowHeight;
    const model = this.#model;
    const bottom = top + this.#rowHeight + gap;
    if (centre && (top < model.position || bottom > model.position + model.viewHeight)) {
      model.position = top - (model.viewHeight - this.#rowHeight) / 2;
    } else if (top < model.position) {
      model.position = top;
    } else if (bottom > model.position + model.viewHeight) {
      model.position = bottom - model.viewHeight;
    }
    model.position = Math.max(0, Math.min(model.limit, model.position));
    this.#settle();
    this.draw();
    if (focus) this.#cellOf(this.#focused)?.link.focus({ preventScroll: true });
    this.onPlace(this.#focused);
  }

  /** Sets the element's scrollTop to what stands for the position. */
  #settle() {
    if (!this.#model.drifted) return;
    this.node.scrollTop = this.#model.scrollTopOf(this.#model.position);
    // Browsers round what is set.
    this.#model.scrollTop = this.node.scrollTop;
  }

  #scrolled() {
    if (this.node.scrollTop === this.#model.scrollTop) return;
    this.#model.moved(this.node.scrollTop);
    const atEnd = this.node.scrollTop <= 0 || this.node.scrollTop >= this.#model.scrollLimit - 1;
    if (atEnd) this.#settle();
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.draw());
    clearTimeout(this.#idle);
    // Setting scrollTop ends the momentum of a touch; so it waits until the list rests.
    this.#idle = setTimeout(() => {
      // A move whose event is still to come must not be lost.
      if (this.node.scrollTop !== this.#model.scrollTop) {
        this.#scrolled();
        return;
      }
      this.#settle();
      this.draw();
      this.#placeFollows();
    }, 200);
  }

  /** Keys go on at what is seen, not at a cell that scrolled away. */
  #placeFollows() {
    const first = Math.ceil(this.#model.position / this.#rowHeight) * this.#columns;
    const end = Math.floor((this.#model.position + this.#model.viewHeight) / this.#rowHeight) * this.#columns;
    if (this.#focused >= first && this.#focused < end) return;
    const column = this.#focused % this.#columns;
    const nearest = this.#focused < first ? first + column : Math.max(first, end - this.#columns) + column;
    this.#focused = Math.max(0, Math.min(this.samples - 1, nearest));
    this.#markFocused();
    this.onPlace(this.#focused);
  }

  /** Makes the rows that are seen, and drops the others. */
  draw() {
    const model = this.#model;
    const rowCount = Math.ceil(this.samples / this.#columns);
    const first = Math.max(0, Math.floor(model.position / this.#rowHeight) - overscan);
    const end = Math.min(rowCount, Math.ceil((model.position + model.viewHeight) / this.#rowHeight) + overscan);
    // Pixels from a row's place in the list to its place in the scroll area.
    const base = model.scrollTop - model.position;
    for (const [number, row] of this.#rows) {
      if (number < first || number >= end) this.#drop(number, row);
    }
    if (first < end) this.rows.want(first * this.#columns, Math.min(this.samples, end * this.#columns));
    for (let number = first; number < end; number++) {
      let row = this.#rows.get(number);
      if (!row || row.cells.length < this.#cellsIn(number)) {
        // The last row of a dataset that grew is made again; the focus stays in it.
        const cell = row?.cells.findIndex((other) => other.link === document.activeElement) ?? -1;
        if (row) this.#drop(number, row);
        row = this.#make(number);
        if (cell >= 0) row.cells[cell].link.focus({ preventScroll: true });
      }
      if (row.base !== base) this.#place(row, number, base);
      for (const cell of row.cells) cell.fill(this.rows.get(cell.ordinal));
    }
    this.#markFocused();
  }

  #cellsIn(number) {
    return Math.min(this.#columns, this.samples - number * this.#columns);
  }

  #make(number) {
    const node = element('div', { class: 'grid-row', role: 'row', 'aria-rowindex': number + 1 });
    node.style.height = `${this.#rowHeight - gap}px`;
    const cells = [];
    for (let i = 0; i < this.#cellsIn(number); i++) {
      const cell = new Cell(number * this.#columns + i, this.options, this.thumbnails);
      cells.push(cell);
      node.append(element('div', { role: 'gridcell', 'aria-colindex': i + 1 }, cell.link));
    }
    const row = { node, cells, base: null };
    this.#rows.set(number, row);
    // The order in the document is the order on the screen.
    const next = [...this.#rows.keys()].filter((other) => other > number).sort((a, b) => a - b)[0];
    this.area.insertBefore(node, next === undefined ? null : this.#rows.get(next).node);
    return row;
  }

  #place(row, number, base) {
    row.base = base;
    row.node.style.transform = `translateY(${base + number * this.#rowHeight + gap}px)`;
  }

  #drop(number, row) {
    if (row.node.contains(document.activeElement)) this.node.focus({ preventScroll: true });
    for (const cell of row.cells) cell.release();
    row.node.remove();
    this.#rows.delete(number);
  }

  #dropAll() {
    for (const [number, row] of this.#rows) this.#drop(number, row);
  }

  #cellOf(ordinal) {
    return this.#rows.get(Math.floor(ordinal / this.#columns))?.cells[ordinal % this.#columns];
  }

  #markFocused() {
    const cell = this.#cellOf(this.#focused);
    if (this.marked === cell) return;
    if (this.marked) this.marked.link.tabIndex = -1;
    if (cell) cell.link.tabIndex = 0;
    this.marked = cell;
    this.node.tabIndex = cell ? -1 : 0;
  }

  #focusIn(event) {
    const ordinal = Number(event.target.dataset?.ordinal);
    if (!Number.isInteger(ordinal) || ordinal === this.#focused) return;
    this.#focused = ordinal;
    this.#markFocused();
    this.onPlace(ordinal);
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const screen = Math.max(1, Math.floor(this.#model.viewHeight / this.#rowHeight)) * this.#columns;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#columns, ArrowDown: this.#columns, PageUp: -screen,
      PageDown: screen, Home: -this.samples, End: this.samples };
    const move = moves[event.key];
    if (move === undefined || this.samples === 0) return;
    event.preventDefault();
    // A step up in the first row, or down in the last, stays where it is.
    if (event.key === 'ArrowUp' && this.#focused < this.#columns) return;
    if (event.key === 'ArrowDown' && this.#focused + this.#columns >= this.samples &&
      Math.floor(this.#focused / this.#columns) === Math.floor((this.samples - 1) / this.#columns)) return;
    this.goTo(this.#focused + move);
  }
}

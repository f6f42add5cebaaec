// A cell: thumbnail, key and captions of a sample. Its size is known before anything is read.

import { damage, element, fill } from './elements.js';
import { count } from './format.js';
import { link } from './router.js';

/**
 * @typedef {Object} CellOptions
 * @property {number} dataset
 * @property {string|null} image column of the thumbnails; null: cards of text
 * @property {string[]} captions columns
 * @property {number} size of thumbnails in CSS pixels
 */

/** The height of a cell in CSS pixels, as the style sheet lays it out. */
export function cellHeight(options) {
  const lines = 20 + 18 * options.captions.length;
  return options.image === null ? Math.max(72, lines + 40) : options.size + lines + 20;
}

export class Cell {
  #cancel = null;
  #filled = false;

  /**
   * @param {number} ordinal
   * @param {CellOptions} options
   * @param {Thumbnails} thumbnails
   */
  constructor(ordinal, options, thumbnails) {
    this.ordinal = ordinal;
    this.options = options;
    this.thumbnails = thumbnails;
    this.picture = options.image === null ? null : element('span', { class: 'cell-picture' });
    this.key = element('span', { class: 'cell-key' });
    this.captions = element('span', { class: 'cell-captions' });
    this.link = element('a', { class: 'cell waiting', href: link(options.dataset, 'sample', ordinal), tabindex: '-1',
      'data-ordinal': ordinal, 'aria-label': `Sample ${count(ordinal)}` }, this.picture,
    element('span', { class: 'cell-text' }, this.key, this.captions));
    if (this.picture) this.picture.style.height = `${options.size}px`;
    this.key.textContent = count(ordinal);
    for (let i = 0; i < options.captions.length; i++) {
      this.captions.append(element('span', { class: 'cell-caption' }, '\u00a0'));
    }
  }

  /** Shows a row of the server, once. */
  fill(row) {
    if (this.#filled || row === null) return;
    this.#filled = true;
    this.row = row;
    this.link.classList.remove('waiting');
    fill(this.key, element('span', { class: 'cell-name' }, row.key ?? count(row.ordinal)),
      row.key !== null && element('span', { class: 'cell-ordinal' }, count(row.ordinal)));
    const captions = row.captions ?? [];
    this.captions.replaceChildren(...this.options.captions.map((name) => {
      const caption = captions.find((other) => other.column === name);
      return element('span', { class: 'cell-caption', title: `${name}: ${caption?.text ?? 'absent'}` },
        element('span', { class: 'quiet' }, `${name} `), caption?.text ?? '–');
    }));
    const spoken = [`Sample ${count(row.ordinal)}`, row.key];
    for (const caption of captions) spoken.push(`${caption.column} ${caption.text}`);
    this.link.setAttribute('aria-label', spoken.filter(Boolean).join(', '));
    if (row.error) {
      this.#fail(row.error);
    } else if (this.picture && !row.image) {
      this.picture.replaceChildren(element('span', { class: 'cell-note' }, 'no image'));
    } else if (this.picture) {
      this.#askImage();
    }
  }

  #askImage() {
    // Screens with more than one pixel per CSS pixel get twice the size at most.
    const size = Math.min(1024, this.options.size * Math.min(2, Math.ceil(window.devicePixelRatio)));
    this.#cancel = this.thumbnails.ask(this.ordinal, this.options.image, size, (result) => {
      this.#cancel = null;
      if (result.url) {
        // The label of the link says what it is.
        const image = element('img', { src: result.url, alt: '', draggable: 'false' });
        image.addEventListener('error', () => this.#fail('The browser cannot show this image.'), { once: true });
        this.picture.replaceChildren(image);
      } else if (result.absent) {
        this.picture.replaceChildren(element('span', { class: 'cell-note' }, 'no image'));
      } else {
        this.#fail(result.error);
      }
    });
  }

  #fail(text) {
    this.link.classList.add('cell-damaged');
    this.link.title = text;
    this.link.setAttribute('aria-label', `${this.link.getAttribute('aria-label')}, damaged: ${text}`);
    const note = damage('span', 'damaged', 'cell-note');
    if (this.picture) {
      this.picture.replaceChildren(note);
    } else {
      this.captions.replaceChildren(note);
    }
  }

  /** Ends what is asked for. The cell can be dropped then. */
  release() {
    this.#cancel?.();
    this.#cancel = null;
  }
}

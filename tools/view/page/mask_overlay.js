// Draws masks over an image. A worker makes the pictures, once; a frame only draws them.

import { apiPath, errorOf, request } from './api.js';
import { boxOf, pointsOf } from './mask_attributes.js';
import { maskColourText } from './mask_colours.js';
import { apply, inverse, uprightTransform } from './orientation.js';
import { closePicture, drawPicture } from './pictures.js';

const keptSingles = 32;

export class MaskOverlay {
  #worker = null;
  #pictures = {};
  #labels = null;           // index + 1 of the uppermost mask of each pixel, column-major
  #singles = new Map();     // index: {fill, edges} of a mask alone
  #asked = null;            // index that the worker makes now
  #marks = [];              // colour, box and points of each mask, so that frames only draw
  #transform = [1, 0, 0, 1, 0, 0];  // from mask pixels to pixels of the shown image

  /**
   * @param {Object} options visible, opacity, outlines, single, boxes, points; read at each drawing
   * @param {AbortSignal} signal
   */
  constructor(options, signal) {
    this.options = options;
    this.signal = signal;
    this.known = false;       // whether the masks have arrived
    this.measures = [];       // {area, box} of each mask
    this.attributes = [];
    this.hovered = null;
    this.selected = null;
    this.onChange = () => {}; // something to draw again
    this.onMeasures = () => {};
    this.onFailure = () => {};
    signal.addEventListener('abort', () => this.#worker?.terminate(), { once: true });
  }

  /** Reads the masks of a sample and has their pictures made. */
  async load(dataset, ordinal, column) {
    const response = await request(apiPath(dataset, `masks/${ordinal}`, { column }), this.signal);
    if (!response.ok) throw await errorOf(response);
    const buffer = await response.arrayBuffer();
    this.signal.throwIfAborted();
    this.#worker = new Worker(new URL('./masks_worker.js', import.meta.url), { type: 'module' });
    this.#worker.addEventListener('message', (event) => this.#received(event.data));
    this.#worker.addEventListener('error', () => this.onFailure('The masks cannot be drawn: the worker did not start.'));
    this.#worker.postMessage({ buffer }, [buffer]);
  }

  #received(message) {
    if (message.kind === 'measures') {
      const { height, width, measures, sizes } = message;
      Object.assign(this, { known: true, height, width, measures, sizes });
      this.#place();
      this.setAttributes([]);
      this.onMeasures();
    } else if (message.kind === 'fill') {
      this.#pictures.fill = message.fill;
      this.#labels = message.labels;
    } else if (message.kind === 'edges') {
      this.#pictures.edges = message.edges;
    } else if (message.kind === 'single') {
      this.#asked = null;
      this.#singles.set(message.index, message);
      for (const [index, single] of this.#singles) {
        if (this.#singles.size <= keptSingles) break;
        closePicture(single.fill);
        closePicture(single.edges);
        this.#singles.delete(index);
      }
    } else {
      this.#asked = null;
      this.onFailure(message.error);
    }
    this.onChange();
  }

  /** Takes what columns say of the masks. @param {Attribute[]} attributes */
  setAttributes(attributes) {
    this.attributes = attributes;
    this.#marks = this.measures.map((_, index) => ({ colour: maskColourText(index),
      box: boxOf(attributes, this.measures, index), points: pointsOf(attributes, index) }));
  }

  /** Takes how the image is stored, which is what masks lie on. @param {number} orientation of EXIF, 0 to 8 */
  setImage(width, height, orientation) {
    this.image = { width, height, orientation };
    this.#place();
  }

  #place() {
    if (!this.image || !this.width) return;
    const [a, b, c, d, e, f] = uprightTransform(this.image.orientation, this.image.width, this.image.height);
    const x = this.image.width / this.width;
    const y = this.image.height / this.height;
    this.#transform = [a * x, b * x, c * y, d * y, e, f];
  }

  /** Whether masks have other sizes than the image, and are stretched. */
  get stretched() {
    return Boolean(this.image && this.width) && (this.image.width !== this.width || this.image.height !== this.height);
  }

  /** How many masks are not drawn with the others, because they have another size. */
  get odd() {
    return (this.sizes ?? []).filter(([height, width]) => height !== this.height || width !== this.width).length;
  }

  /** The uppermost mask at a point of the shown image, or null. */
  at(x, y) {
    if (!this.#labels || !this.options.visible) return null;
    const [u, v] = apply(inverse(this.#transform), x, y).map(Math.floor);
    if (u < 0 || v < 0 || u >= this.width || v >= this.height) return null;
    if (this.options.single) return this.#inBox(this.selected, u, v) ? this.selected : null;
    const label = this.#labels[u * this.height + v];
    return label === 0 ? null : label - 1;
  }

  #inBox(index, u, v) {
    if (index === null) return false;
    const [left, top, width, height] = this.measures[index].box;
    return u >= left && v >= top && u < left + width && v < top + height;
  }

  /** The layers for the stage, from below: areas, outlines, and what is looked at. */
  layers() {
    const layer = (draw) => (context, scale, ratio) => {
      if (this.measures.length === 0 || !this.image) return;
      context.transform(...this.#transform);
      draw(context, scale * Math.hypot(this.#transform[0], this.#transform[1]), ratio);
    };
    const all = (picture, alpha) => layer((context, scale) => {
      if (!this.options.visible || this.options.single) return;
      // Others step back behind the mask that is looked at.
      this.#paint(context, this.#pictures[picture], alpha(this.options) * (this.#shown === null ? 1 : 0.45), scale);
    });
    return [all('fill', ({ outlines, opacity }) => (outlines ? 0 : opacity)),
      all('edges', ({ opacity }) => Math.min(1, opacity + 0.35)),
      layer((context, scale, ratio) => this.#drawMarks(context, scale, ratio))];
  }

  /** The mask that is looked at. */
  get #shown() {
    return this.options.single ? this.selected : this.hovered ?? this.selected;
  }

  #drawMarks(context, scale, ratio) {
    const { visible, single, boxes, points } = this.options;
    const shown = this.#shown;
    if (visible && shown !== null) this.#paintSingle(context, shown, scale);
    const strong = shown === null ? null : this.#marks[shown];
    const marks = single ? [strong].filter((mark) => mark !== null) : this.#marks;
    context.globalAlpha = 1;
    if (boxes) for (const mark of marks) paintBox(context, mark, ratio / scale, mark === strong);
    if (points) for (const mark of marks) paintPoints(context, mark, ratio / scale, mark === strong);
  }

  #paint(context, picture, alpha, scale) {
    if (!picture || alpha === 0) return;
    context.globalAlpha = alpha;
    drawPicture(context, picture, scale);
  }

  #paintSingle(context, index, scale) {
    const picture = this.#singles.get(index);
    if (!picture) {
      this.#ask(index);
      return;
    }
    if (!picture.fill) return;
    const [left, top] = this.measures[index].box;
    context.globalAlpha = this.options.outlines ? 0 : Math.min(0.9, this.options.opacity + 0.2);
    drawPicture(context, picture.fill, scale, left, top);
    context.globalAlpha = 1;
    drawPicture(context, picture.edges, scale, left, top);
  }

  #ask(index) {
    if (this.#asked !== null || !this.#worker) return;
    this.#asked = index;
    this.#worker.postMessage({ index });
  }
}

function paintBox(context, { colour, box }, pixel, strong) {
  context.lineWidth = (strong ? 3 : 1.5) * pixel;
  context.strokeStyle = colour;
  context.strokeRect(...box);
}

function paintPoints(context, { colour, points }, pixel, strong) {
  context.fillStyle = colour;
  context.strokeStyle = '#fff';
  context.lineWidth = 1.5 * pixel;
  for (const [x, y] of points) {
    context.beginPath();
    context.arc(x, y, (strong ? 6 : 4) * pixel, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
}

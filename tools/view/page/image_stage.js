// An image that can be zoomed and moved, with layers drawn over it. A frame only draws finished pictures.

import { element } from './elements.js';
import { closePicture, drawPicture } from './pictures.js';
import { StageView } from './stage_view.js';

const keptFrames = 240;

/** Keeps how long drawing a frame took, in milliseconds, for tests. */
function recordFrame(milliseconds) {
  const frames = window.shardkitView.frameMilliseconds;
  frames.push(milliseconds);
  if (frames.length > keptFrames) frames.splice(0, frames.length - keptFrames);
}

export class ImageStage {
  #view = new StageView();
  #frame = 0;
  #drag = null;
  #image = null;
  #layers = [];  // {canvas, context, draw}, from below

  /**
   * @param {string} label says what the image is
   * @param {AbortSignal} signal
   */
  constructor(label, signal) {
    this.onHover = () => {};      // gets a point in image pixels, or null, and the place in the frame
    this.onClick = () => {};
    this.canvas = element('canvas', { role: 'img', 'aria-label': label });
    this.scaleText = element('output', { class: 'stage-scale' });
    const button = (name, text, act) => element('button', { type: 'button', class: 'plain', 'aria-label': name,
      title: name, onclick: act }, text);
    this.frame = element('div', { class: 'stage-frame', tabindex: '0', role: 'group',
      'aria-label': `${label}. Plus and minus zoom, arrows move, 0 fits.` }, this.canvas);
    this.node = element('div', { class: 'stage' }, this.frame, element('div', { class: 'stage-tools' },
      button('Zoom out', '−', () => this.zoom(1 / 1.5)), this.scaleText, button('Zoom in', '+', () => this.zoom(1.5)),
      button('Fit (0)', 'Fit', () => this.fit()), button('One pixel each', '1:1', () => this.zoom(1 / this.#view.scale))));
    this.#layers.push({ canvas: this.canvas, context: this.canvas.getContext('2d'), draw: (context, scale) => {
      // Pixels are what a person wants to see when they are large.
      context.imageSmoothingEnabled = scale < 3;
      const pictureScale = (scale * this.imageWidth) / this.#image[0].width;
      drawPicture(context, this.#image, pictureScale, 0, 0, this.imageWidth, this.imageHeight);
    } });
    this.#listen();
    const observer = new ResizeObserver(() => this.#resize());
    observer.observe(this.frame);
    signal.addEventListener('abort', () => {
      observer.disconnect();
      cancelAnimationFrame(this.#frame);
      closePicture(this.#image);
    }, { once: true });
  }

  /**
   * Shows an upright image.
   * @param {ImageBitmap[]} levels of pyramid(), which the stage owns from now on
   * @param {number} width of the image in pixels, which may be more than the picture has
   * @param {number} height
   */
  setImage(levels, width, height) {
    closePicture(this.#image);
    this.#image = levels;
    this.imageWidth = width;
    this.imageHeight = height;
    this.#resize();
  }

  /**
   * Lays something over the image. Each layer has a canvas of its own: after about 32 MiB of pictures on one canvas
   * Chromium paints at once, and the frame waits for it.
   * @param {function(CanvasRenderingContext2D, number, number)} draw in image pixels; gets the device pixels per image
   *     pixel, and per CSS pixel
   */
  addLayer(draw) {
    const canvas = element('canvas', { class: 'stage-layer', 'aria-hidden': 'true' });
    this.#layers[this.#layers.length - 1].canvas.after(canvas);
    this.#layers.push({ canvas, context: canvas.getContext('2d'), draw });
  }

  fit() {
    this.#view.fit();
    this.redraw();
  }

  zoom(factor, x, y) {
    if (!this.#image) return;
    this.#view.zoom(factor, x, y);
    this.redraw();
  }

  /** Draws with the next frame of the screen. */
  redraw() {
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #resize() {
    const { clientWidth, clientHeight } = this.frame;
    if (clientWidth === 0 || !this.#image) return;
    const ratio = window.devicePixelRatio;
    for (const { canvas } of this.#layers) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
    }
    this.#view.resize(clientWidth, clientHeight, this.imageWidth, this.imageHeight);
    // Setting its size empties the canvas; waiting for the next frame would flash.
    this.#draw();
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (!this.#image) return;
    const start = performance.now();
    const ratio = window.devicePixelRatio;
    const scale = this.#view.scale * ratio;
    for (const { canvas, context, draw } of this.#layers) {
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.setTransform(scale, 0, 0, scale, this.#view.x * ratio, this.#view.y * ratio);
      draw(context, scale, ratio);
    }
    this.scaleText.textContent = `${Math.round(this.#view.scale * 100)} %`;
    recordFrame(performance.now() - start);
  }

  #listen() {
    const frame = this.frame;
    const place = (event) => {
      const box = frame.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    frame.addEventListener('wheel', (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      this.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) * 0.002), ...place(event));
    }, { passive: false });
    frame.addEventListener('dblclick', (event) => this.zoom(event.shiftKey ? 0.5 : 2, ...place(event)));
    frame.addEventListener('pointerdown', (event) => this.#pointerDown(event, place(event)));
    frame.addEventListener('pointermove', (event) => this.#pointerMove(event, place(event)));
    frame.addEventListener('pointerup', (event) => this.#pointerUp(event, place(event)));
    frame.addEventListener('pointercancel', () => { this.#drag = null; });
    frame.addEventListener('pointerleave', () => this.onHover(null));
    frame.addEventListener('keydown', (event) => this.#pressed(event));
  }

  #pointerDown(event, [x, y]) {
    if (event.button !== 0) return;
    this.frame.setPointerCapture(event.pointerId);
    if (this.#drag) {
      // A second finger: the distance of both zooms.
      this.#drag.other = { id: event.pointerId, x, y };
    } else {
      this.#drag = { id: event.pointerId, x, y, moved: 0, other: null };
    }
  }

  #pointerMove(event, [x, y]) {
    const drag = this.#drag;
    if (!drag) {
      if (this.#image) this.onHover(this.#view.imagePoint(x, y), x, y);
      return;
    }
    const finger = drag.other?.id === event.pointerId ? drag.other : drag;
    if (drag.other) {
      const still = finger === drag ? drag.other : drag;
      const before = Math.hypot(finger.x - still.x, finger.y - still.y);
      const now = Math.hypot(x - still.x, y - still.y);
      if (before > 0) this.#view.zoom(now / before, still.x, still.y);
    } else {
      this.#view.move(x - finger.x, y - finger.y);
    }
    drag.moved += Math.abs(x - finger.x) + Math.abs(y - finger.y);
    Object.assign(finger, { x, y });
    this.redraw();
  }

  #pointerUp(event, [x, y]) {
    const drag = this.#drag;
    this.#drag = null;
    if (drag && drag.moved < 4 && this.#image) this.onClick(this.#view.imagePoint(x, y));
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60;
    const acts = {
      '+': () => this.zoom(1.5), '=': () => this.zoom(1.5), '-': () => this.zoom(1 / 1.5), 0: () => this.fit(),
      ArrowLeft: () => this.#view.move(step, 0), ArrowRight: () => this.#view.move(-step, 0),
      ArrowUp: () => this.#view.move(0, step), ArrowDown: () => this.#view.move(0, -step),
    };
    const act = acts[event.key];
    if (!act || !this.#image) return;
    event.preventDefault();
    act();
    this.redraw();
  }
}

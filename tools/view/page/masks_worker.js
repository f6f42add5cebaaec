// Makes pictures of masks outside the page's thread, so that the page never waits for them.

import { forEachPixel, forEachInterval, measure, paintRuns, parseMasks } from './masks.js';
import { outline } from './mask_outline.js';
import { maskColour } from './mask_colours.js';
import { pyramid } from './pictures.js';

let masks = [];
let measures = [];
let thickness = 1;

const mostPixels = 200e6;  // of a picture: more than any photograph, and what memory allows

const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** A pixel of an opaque colour, as a word of the bytes red, green, blue, alpha. */
function word(index) {
  const [red, green, blue] = maskColour(index);
  const bytes = littleEndian ? [255, blue, green, red] : [red, green, blue, 255];
  return ((bytes[0] << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3]) >>> 0;
}

async function picture(words, width, height) {
  return pyramid(await createImageBitmap(new ImageData(new Uint8ClampedArray(words.buffer), width, height)));
}

/** Masks of the size that most have are drawn together; the largest first, so that small ones lie above. */
async function draw(buffer, id) {
  masks = parseMasks(buffer);
  measures = masks.map(measure);
  const { height, width } = commonSize();
  const drawn = masks.map((mask, i) => i).filter((i) => masks[i].height === height && masks[i].width === width);
  drawn.sort((a, b) => measures[b].area - measures[a].area || a - b);
  thickness = Math.max(1, Math.min(6, Math.round(Math.max(height, width) / 800)));
  postMessage({ id, kind: 'measures', height, width, measures, sizes: masks.map((mask) => [mask.height, mask.width]) });
  if (height * width === 0) return;
  if (height * width > mostPixels) throw new Error(`Masks of ${width} x ${height} pixels are too large to draw.`);

  const labels = new (masks.length < 65535 ? Uint16Array : Uint32Array)(height * width);  // index + 1, column-major
  for (const i of drawn) paintRuns(masks[i], labels, i + 1);
  const colours = Uint32Array.from({ length: masks.length + 1 }, (_, i) => (i === 0 ? 0 : word(i - 1)));
  const fill = new Uint32Array(height * width);
  forEachPixel(height, width, (from, to) => { fill[to] = colours[labels[from]]; });
  const filled = await picture(fill, width, height);
  postMessage({ id, kind: 'fill', fill: filled, labels }, [...filled, labels.buffer]);

  const edges = new Uint32Array(height * width);
  for (const i of drawn) {
    outline(masks[i], thickness, (x, from, to) => {
      for (let y = from; y < to; y++) edges[y * width + x] = colours[i + 1];
    });
  }
  const edged = await picture(edges, width, height);
  postMessage({ id, kind: 'edges', edges: edged }, edged);
}

function commonSize() {
  const counts = new Map();
  let best = { height: 0, width: 0, count: 0 };
  for (const { height, width } of masks) {
    const count = (counts.get(`${height} ${width}`) ?? 0) + 1;
    counts.set(`${height} ${width}`, count);
    if (count > best.count) best = { height, width, count };
  }
  return best;
}

/** One mask alone, of the size of its box. */
async function single(index, id) {
  const mask = masks[index];
  const [left, top, width, height] = measures[index].box;
  if (width * height === 0 || width * height > mostPixels) {
    postMessage({ id, kind: 'single', index, fill: null, edges: null });
    return;
  }
  const colour = word(index);
  const fill = new Uint32Array(width * height);
  forEachInterval(mask, (x, from, to) => {
    for (let y = from; y < to; y++) fill[(y - top) * width + x - left] = colour;
  });
  const edges = new Uint32Array(width * height);
  outline(mask, thickness, (x, from, to) => {
    if (x < left || x >= left + width) return;
    for (let y = from; y < to; y++) edges[(y - top) * width + x - left] = colour;
  });
  const pictures = await Promise.all([picture(fill, width, height), picture(edges, width, height)]);
  postMessage({ id, kind: 'single', index, fill: pictures[0], edges: pictures[1] }, pictures.flat());
}

addEventListener('message', async (event) => {
  const { id, buffer, index } = event.data;
  try {
    await (buffer ? draw(buffer, id) : single(index, id));
  } catch (error) {
    postMessage({ id, kind: 'failed', error: error.message });
  }
});

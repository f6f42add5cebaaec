// Masks as run lengths: reading the server's reply, and making pixels of the runs. No part of it needs a page, so that
// workers and tests use it as it is.

/**
 * @typedef {Object} Mask
 * @property {number} height in pixels
 * @property {number} width in pixels
 * @property {Uint32Array} runs lengths in column-major order, alternately of background and foreground, background first
 */

/**
 * Reads the reply of /api/D/masks: little-endian u32 count, then {height, width, run_count} of each, then all runs.
 * @param {ArrayBuffer} buffer
 * @returns {Mask[]} whose runs are views of the buffer
 */
export function parseMasks(buffer) {
  const words = littleEndianWords(buffer);
  const count = words[0];
  const masks = [];
  let offset = 1 + 3 * count;
  if (buffer.byteLength % 4 !== 0 || count === undefined || offset > words.length) throw new Error('The masks end early.');
  for (let i = 0; i < count; i++) {
    const [height, width, runCount] = words.subarray(1 + 3 * i, 4 + 3 * i);
    if (offset + runCount > words.length) throw new Error(`The runs of mask ${i} end early.`);
    masks.push({ height, width, runs: words.subarray(offset, offset + runCount) });
    offset += runCount;
  }
  return masks;
}

function littleEndianWords(buffer) {
  const count = Math.floor(buffer.byteLength / 4);
  if (new Uint8Array(Uint16Array.of(1).buffer)[0] === 1) return new Uint32Array(buffer, 0, count);
  const view = new DataView(buffer);
  return Uint32Array.from({ length: count }, (_, i) => view.getUint32(4 * i, true));
}

/**
 * Writes a value where the mask is foreground.
 * @param {Mask} mask
 * @param {Uint8Array|Uint16Array} columnMajor height*width elements, pixel (x, y) at x*height + y
 * @param {number} value
 * @returns {number} how many pixels were written
 */
export function paintRuns(mask, columnMajor, value) {
  const { runs } = mask;
  const end = mask.height * mask.width;
  let place = 0;
  let area = 0;
  for (let i = 0; i < runs.length; i++) {
    const next = Math.min(end, place + runs[i]);
    if (i % 2 === 1) {
      columnMajor.fill(value, place, next);
      area += next - place;
    }
    place = next;
  }
  return area;
}

/**
 * The pixels of a mask.
 * @param {Mask} mask
 * @returns {Uint8Array} height*width elements of 0 or 1, row-major
 */
export function rasterize(mask) {
  const columnMajor = new Uint8Array(mask.height * mask.width);
  paintRuns(mask, columnMajor, 1);
  const rowMajor = new Uint8Array(mask.height * mask.width);
  forEachPixel(mask.height, mask.width, (from, to) => { rowMajor[to] = columnMajor[from]; });
  return rowMajor;
}

/**
 * Visits all pixels in squares that fit a processor's cache, because going down columns and along rows at the same time
 * misses it.
 * @param {function(number, number)} visit gets the column-major and the row-major index
 */
export function forEachPixel(height, width, visit) {
  const square = 32;
  for (let top = 0; top < height; top += square) {
    const bottom = Math.min(height, top + square);
    for (let left = 0; left < width; left += square) {
      const right = Math.min(width, left + square);
      for (let y = top; y < bottom; y++) {
        for (let x = left; x < right; x++) visit(x * height + y, y * width + x);
      }
    }
  }
}

/**
 * Area and bounding box from the runs, without pixels.
 * @param {Mask} mask
 * @returns {{area: number, box: number[]}} box as x, y, width, height in pixels; all 0 of an empty mask
 */
export function measure(mask) {
  let area = 0;
  let [left, top, right, bottom] = [mask.width, mask.height, 0, 0];
  forEachInterval(mask, (x, from, to) => {
    area += to - from;
    left = Math.min(left, x);
    right = Math.max(right, x + 1);
    top = Math.min(top, from);
    bottom = Math.max(bottom, to);
  });
  return area === 0 ? { area, box: [0, 0, 0, 0] } : { area, box: [left, top, right - left, bottom - top] };
}

/**
 * Visits the foreground as intervals within columns, in ascending order.
 * @param {Mask} mask
 * @param {function(number, number, number)} visit gets x, the first y, and the y after the last
 */
export function forEachInterval(mask, visit) {
  const { runs, height } = mask;
  const end = height * mask.width;
  let place = 0;
  for (let i = 0; i < runs.length; i++) {
    const next = Math.min(end, place + runs[i]);
    if (i % 2 === 1) {
      while (place < next) {
        const x = Math.floor(place / height);
        const stop = Math.min(next, (x + 1) * height);
        visit(x, place - x * height, stop - x * height);
        place = stop;
      }
    }
    place = next;
  }
}

// What is known of each mask: array columns with an entry for each mask, and what the runs themselves say.

import { apiPath, getJson } from './api.js';
import { number } from './format.js';

const mostPerMask = 64;  // elements; a larger array is an image or an embedding
const first = ['area', 'predicted_iou', 'stability_score', 'bbox', 'point_coords', 'crop_box'];

/**
 * @typedef {Object} Attribute
 * @property {string} name of the column
 * @property {number} perMask elements of each mask
 * @property {(number|string)[]} values of all masks
 */

/**
 * Reads the attribute columns of a sample; a damaged one is left out, because the list of values shows what is wrong.
 * @param {number} dataset
 * @param {Object} sample the reply of /sample
 * @param {number} masks how many
 * @param {AbortSignal} signal
 * @returns {Promise<Attribute[]>}
 */
export async function readAttributes(dataset, sample, masks, signal) {
  const columns = sample.columns.filter((column) => column.kind === 'array' && column.present && !column.error &&
    column.shape?.[0] === masks && elements(column.shape) <= masks * mostPerMask);
  const rank = (name) => (first.includes(name) ? first.indexOf(name) : first.length);
  columns.sort((a, b) => rank(a.name) - rank(b.name));
  const attributes = await Promise.all(columns.map(async (column) => {
    try {
      const array = await getJson(apiPath(dataset, `array/${sample.ordinal}`, { column: column.name }), signal);
      return { name: column.name, perMask: elements(column.shape) / masks, values: array.values };
    } catch (error) {
      if (signal.aborted) throw error;
      return null;
    }
  }));
  return attributes.filter((attribute) => attribute !== null);
}

function elements(shape) {
  return shape.reduce((product, size) => product * size, 1);
}

/** The elements of a mask. */
export function valuesOf(attribute, mask) {
  return attribute.values.slice(mask * attribute.perMask, (mask + 1) * attribute.perMask);
}

/** The elements of a mask as text; an ellipsis where the server sent no more. */
export function attributeText(attribute, mask) {
  const values = valuesOf(attribute, mask);
  return values.length === 0 ? '…' : values.map(number).join(', ');
}

/** Boxes as x, y, width, height in pixels, from the column `bbox` where it has them, else from the runs. */
export function boxOf(attributes, measures, mask) {
  const boxes = attributes.find((attribute) => attribute.name === 'bbox' && attribute.perMask === 4);
  const values = boxes ? valuesOf(boxes, mask) : [];
  return values.length === 4 ? values.map(Number) : measures[mask].box;
}

/** Points as [x, y] pairs in pixels, from the column `point_coords`. */
export function pointsOf(attributes, mask) {
  const points = attributes.find((attribute) => attribute.name === 'point_coords' && attribute.perMask % 2 === 0);
  if (!points) return [];
  const values = valuesOf(points, mask).map(Number);
  return Array.from({ length: Math.floor(values.length / 2) }, (_, i) => [values[2 * i], values[2 * i + 1]]);
}

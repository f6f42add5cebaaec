// What cells show: which image, which captions, how large. Kept for each dataset.

import { checkbox, element, labelledSelect } from './elements.js';
import { keepSetting, setting } from './settings.js';

const sizes = [['96', 'Small'], ['160', 'Medium'], ['256', 'Large'], ['384', 'Huge']];
const captionKinds = ['number', 'boolean', 'text', 'time', 'masks'];

/**
 * The kept options, or reasonable ones: the first image column, two short columns as captions.
 * @param {number} dataset
 * @param {Object} overview the reply of /overview
 * @returns {CellOptions}
 */
export function cellOptions(dataset, overview) {
  const kept = setting(`cells:${overview.path}`, {});
  const names = overview.columns.map((column) => column.name);
  const images = imageColumns(overview);
  const candidates = overview.columns.filter((column) => !column.key && captionKinds.includes(column.kind));
  // A class is what a person looks for first.
  candidates.sort((a, b) => Number(Boolean(b.class_names)) - Number(Boolean(a.class_names)));
  // Cards of text have room, and nothing else to show.
  const others = images.length > 0 ? [] : overview.columns.filter((column) => !column.key && !candidates.includes(column));
  const standard = [...candidates, ...others].slice(0, images.length > 0 ? 2 : 4).map((column) => column.name);
  const captions = Array.isArray(kept.captions) ? kept.captions : standard;
  return {
    dataset,
    image: images.includes(kept.image) || (kept.image === null && images.length > 0) ? kept.image : images[0] ?? null,
    captions: captions.filter((name) => names.includes(name)),
    size: sizes.some(([size]) => Number(size) === kept.size) ? kept.size : 160,
  };
}

/** The names of the image columns. */
export function imageColumns(overview) {
  return overview.columns.filter((column) => column.kind === 'image').map((column) => column.name);
}

/**
 * Controls of the options, folded under a button.
 * @param {Object} overview
 * @param {CellOptions} options the present ones
 * @param {function(CellOptions)} onChange
 * @returns {HTMLElement}
 */
export function cellControls(overview, options, onChange) {
  const change = (changes) => {
    Object.assign(options, changes);
    keepSetting(`cells:${overview.path}`, { image: options.image, captions: options.captions, size: options.size });
    onChange({ ...options });
  };
  const images = imageColumns(overview);
  const fields = [];
  if (images.length > 0) {
    fields.push(labelledSelect('Image', [...images.map((name) => ({ value: name, text: name })), { value: '', text: '(none)' }],
      options.image ?? '', (value) => change({ image: value === '' ? null : value })));
    fields.push(labelledSelect('Size', sizes.map(([value, text]) => ({ value, text })), String(options.size),
      (value) => change({ size: Number(value) })));
  }
  const boxes = overview.columns.filter((column) => column.kind !== 'image' && !column.key).slice(0, 100).map((column) =>
    checkbox(column.name, options.captions.includes(column.name), (on) => {
      const others = options.captions.filter((name) => name !== column.name);
      const wanted = on ? [...others, column.name] : others;
      change({ captions: overview.columns.map((other) => other.name).filter((name) => wanted.includes(name)) });
    }));
  if (boxes.length > 0) fields.push(element('fieldset', {}, element('legend', {}, 'Captions'), boxes));
  // A press on a label moves the focus to what is around it, which must be within.
  const details = element('details', { class: 'popover' }, element('summary', { class: 'button' }, 'Display'),
    element('div', { class: 'popover-body', tabindex: '-1' }, fields));
  details.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !details.open) return;
    event.stopPropagation();
    details.open = false;
    details.querySelector('summary').focus();
  });
  details.addEventListener('focusout', (event) => {
    if (event.relatedTarget && !details.contains(event.relatedTarget)) details.open = false;
  });
  return details;
}

// The view of one sample: every column as what it is.

import { apiPath, getJson } from './api.js';
import { element } from './elements.js';
import { count } from './format.js';
import { isTyping } from './keys.js';
import { link } from './router.js';
import { imageWithMasks } from './sample_image.js';
import { empty, present } from './states.js';
import { valueRow } from './value_row.js';

/** Shows the sample of the route in `root`. */
export async function showSample(root, { dataset, info, route, signal }) {
  const ordinal = route.ordinal ?? 0;
  const wanted = route.parameters.get('column');
  let sample;
  try {
    sample = await getJson(apiPath(dataset, `sample/${ordinal}`), signal);
  } catch (error) {
    if (error.status !== 404) throw error;
    present(root, element('h1', { class: 'unseen' }, `Sample ${count(ordinal)}`),
      empty(`There is no sample ${count(ordinal)}.`, error.message));
    return;
  }
  const images = sample.columns.filter((column) => column.kind === 'image' && column.present && !column.error);
  const image = images.find((column) => column.name === wanted) ?? images[0] ?? null;
  const allMasks = sample.columns.filter((column) => column.kind === 'masks' && column.present && !column.error);
  const masks = allMasks.find((column) => column.name === route.parameters.get('masks')) ?? allMasks[0] ?? null;
  const stage = image === null ? null : imageWithMasks(dataset, sample, image, masks, signal);
  const at = (n) => link(dataset, 'sample', n, { column: wanted, masks: route.parameters.get('masks') });

  document.title = `${sample.key ?? count(ordinal)} · ${info.name} · Shardkit`;
  const focused = document.activeElement?.id;
  present(root, element('div', { class: 'page sample' },
    head(sample, dataset, at),
    choices(dataset, ordinal, images, image, allMasks, masks),
    stage?.node,
    element('section', { 'aria-labelledby': 'values-title' }, element('h2', { id: 'values-title' }, 'Values'),
      sample.columns.map((column) => valueRow(dataset, sample, column, column === image, signal)))));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  listen(stage, { back: link(dataset, 'grid', ordinal), previous: ordinal > 0 ? at(ordinal - 1) : null,
    next: ordinal + 1 < sample.samples ? at(ordinal + 1) : null }, signal);
}

function head(sample, dataset, at) {
  const { ordinal, place } = sample;
  const step = (id, text, title, target, exists) => (exists ?
    element('a', { class: 'button', id, href: at(target), title }, text) :
    element('span', { class: 'button', 'aria-disabled': 'true', role: 'link' }, text));
  return element('div', { class: 'sample-head' },
    element('div', {},
      element('h1', {}, sample.key ?? `Sample ${count(ordinal)}`),
      element('p', { class: 'path' }, `sample ${count(ordinal)} of ${count(sample.samples)}`, place ? placeText(place) : '')),
    element('nav', { class: 'steps', 'aria-label': 'Samples' },
      element('a', { class: 'button', id: 'sample-back', href: link(dataset, 'grid', ordinal),
        title: 'Back to the grid (Esc)' }, 'Grid'),
      step('sample-previous', '← Previous', 'Previous sample ([ or k)', ordinal - 1, ordinal > 0),
      step('sample-next', 'Next →', 'Next sample (] or j)', ordinal + 1, ordinal + 1 < sample.samples)));
}

function placeText(place) {
  let text = ` · ${place.shard_name}, its sample ${count(place.sample_in_shard)}`;
  if (place.block !== null && place.block !== undefined) {
    const first = place.block_first_sample;
    text += ` · block ${count(place.block)}`;
    if (place.block_samples) text += ` (samples ${count(first)}–${count(first + place.block_samples - 1)})`;
  }
  return text;
}

/** Links to the other images and masks, where there are several. */
function choices(dataset, ordinal, images, image, allMasks, masks) {
  const group = (title, columns, chosen, parameters) => columns.length > 1 && element('nav', { class: 'tabs choices',
    'aria-label': title }, columns.map((column) => element('a', { href: link(dataset, 'sample', ordinal, parameters(column.name)),
      'aria-current': column === chosen ? 'true' : null }, column.name)));
  return [group('Images', images, image, (name) => ({ column: name, masks: masks?.name })),
    image && group('Masks over the image', allMasks, masks, (name) => ({ column: image.name, masks: name }))];
}

function listen(stage, links, signal) {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || isTyping(event)) return;
    const targets = { Escape: links.back, '[': links.previous, k: links.previous, ']': links.next, j: links.next };
    if (event.key in targets) {
      event.preventDefault();
      if (targets[event.key]) window.location.hash = targets[event.key];
    } else if (stage?.keys(event)) {
      event.preventDefault();
    }
  }, { signal });
}

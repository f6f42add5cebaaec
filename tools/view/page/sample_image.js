// The image of a sample, with its masks.

import { apiPath, errorOf, request } from './api.js';
import { element } from './elements.js';
import { ImageStage } from './image_stage.js';
import { readAttributes } from './mask_attributes.js';
import { MaskOverlay } from './mask_overlay.js';
import { MaskPanel, maskOptions } from './mask_panel.js';
import { swapsSides } from './orientation.js';
import { pyramid } from './pictures.js';
import { failure } from './states.js';

/**
 * Reads and decodes an image; what the browser cannot decode, the server may.
 * @returns {Promise<ImageBitmap[]>} upright, at several sizes
 */
async function readImage(dataset, ordinal, column, signal) {
  const paths = [apiPath(dataset, `thumbnail/${ordinal}`, { column: column.name, size: 1024 })];
  if (column.shown !== false) paths.unshift(apiPath(dataset, `value/${ordinal}`, { column: column.name }));
  let problem = null;
  for (const path of paths) {
    const response = await request(path, signal);
    if (!response.ok) {
      problem ??= await errorOf(response);
      continue;
    }
    try {
      return await pyramid(await createImageBitmap(await response.blob()));
    } catch (error) {
      if (signal.aborted) throw error;
      problem ??= new Error('The browser cannot decode this image.');
    }
  }
  throw problem;
}

/**
 * Makes the stage of an image column, and reads the image into it.
 * @param {number} dataset
 * @param {Object} sample the reply of /sample
 * @param {Object} column of the image
 * @param {Object|null} masks the column of masks to lay over it
 * @param {AbortSignal} signal
 * @returns {{node: Element, keys: function(KeyboardEvent): boolean}} keys() takes a key, and says whether it was one of its own
 */
export function imageWithMasks(dataset, sample, column, masks, signal) {
  const stage = new ImageStage(`Image ${column.name} of sample ${sample.ordinal}`, signal);
  stage.frame.id = 'stage-frame';
  const overlay = masks ? new MaskOverlay(maskOptions(), signal) : null;
  const panel = overlay ? new MaskPanel(overlay, () => stage.redraw()) : null;
  const node = element('div', { class: panel ? 'looked-at with-masks' : 'looked-at' }, stage.node, panel?.node);
  stage.frame.classList.add('waiting');

  readImage(dataset, sample.ordinal, column, signal).then((levels) => {
    stage.frame.classList.remove('waiting');
    const orientation = column.orientation ?? 0;
    let [width, height] = [levels[0].width, levels[0].height];
    // A picture made by the server may be smaller than the image.
    if (column.shown === false && column.width && column.height) {
      [width, height] = swapsSides(orientation) ? [column.height, column.width] : [column.width, column.height];
    }
    overlay?.setImage(...(swapsSides(orientation) ? [height, width] : [width, height]), orientation);
    stage.setImage(levels, width, height);
    panel?.fill();
  }).catch((error) => {
    if (signal.aborted) return;
    stage.frame.classList.remove('waiting');
    stage.frame.replaceChildren(failure('This image cannot be shown.', error.message));
  });
  if (!overlay) return { node, keys: () => false };

  connect(stage, overlay, panel);
  overlay.onFailure = (text) => panel.fail(text);
  overlay.onMeasures = async () => {
    panel.fill();
    const attributes = await readAttributes(dataset, sample, overlay.measures.length, signal).catch(() => []);
    if (signal.aborted) return;
    overlay.setAttributes(attributes);
    panel.fill();
    stage.redraw();
  };
  overlay.load(dataset, sample.ordinal, masks.name).catch((error) => {
    if (!signal.aborted) panel.fail(error.message);
  });
  return { node, keys: (event) => pressed(event, panel) };
}

function connect(stage, overlay, panel) {
  const tip = element('dl', { class: 'mask-tip', hidden: true });
  stage.frame.append(tip);
  let told = null;
  for (const layer of overlay.layers()) stage.addLayer(layer);
  overlay.onChange = () => stage.redraw();
  stage.onHover = (point, x, y) => {
    const index = point === null ? null : overlay.at(...point);
    if (index !== told) {
      told = index;
      tip.hidden = index === null;
      if (index !== null) {
        tip.replaceChildren(...panel.facts(index).map(([name, text]) =>
          element('div', {}, element('dt', {}, name), element('dd', {}, text))));
      }
      overlay.hovered = index;
      stage.redraw();
    }
    if (index === null) return;
    // The side of the pointer where there is more room.
    const right = x < stage.frame.clientWidth / 2;
    const below = y < stage.frame.clientHeight / 2;
    tip.style.transform = `translate(${right ? x + 16 : x - 16}px, ${below ? y + 16 : y - 16}px) ` +
      `translate(${right ? 0 : -100}%, ${below ? 0 : -100}%)`;
  };
  stage.onClick = (point) => {
    const index = overlay.at(...point);
    panel.select(index === overlay.selected ? null : index);
  };
}

function pressed(event, panel) {
  const toggles = { m: 'visible', o: 'outlines', s: 'single', b: 'boxes', p: 'points' };
  if (toggles[event.key]) {
    panel.toggle(toggles[event.key]);
  } else if (event.key === ',' || event.key === '.') {
    panel.step(event.key === '.' ? 1 : -1);
  } else {
    return false;
  }
  return true;
}

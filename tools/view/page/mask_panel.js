// The controls of masks and the list of them.

import { checkbox, element, labelledSelect } from './elements.js';
import { count, number, plural } from './format.js';
import { attributeText, valuesOf } from './mask_attributes.js';
import { maskColourText } from './mask_colours.js';
import { keepSetting, setting } from './settings.js';

const mostListed = 2000;

/** The kept options of masks. */
export function maskOptions() {
  const standard = { visible: true, opacity: 0.45, outlines: false, single: false, boxes: false, points: false };
  const kept = setting('masks', {});
  for (const name of Object.keys(standard)) {
    if (typeof kept?.[name] === typeof standard[name]) standard[name] = kept[name];
  }
  return standard;
}

export class MaskPanel {
  #order = [];
  #sort = 'index';
  #items = new Map();  // index: option element
  #notes = [];
  #problem = null;

  /** @param {MaskOverlay} overlay  @param {function()} onChange draws again */
  constructor(overlay, onChange) {
    this.overlay = overlay;
    this.onChange = onChange;
    this.title = element('h2', {}, 'Masks');
    this.note = element('p', { class: 'quiet', role: 'status' }, 'Reading masks…');
    this.toggles = new Map([['visible', 'Show (m)'], ['outlines', 'Outlines only (o)'], ['single', 'One at a time (s)'],
      ['boxes', 'Boxes (b)'], ['points', 'Points (p)']].map(([name, text]) =>
      [name, checkbox(text, overlay.options[name], (on) => this.#set(name, on))]));
    this.opacity = element('input', { type: 'range', min: '0', max: '1', step: '0.05', value: overlay.options.opacity,
      oninput: (event) => this.#set('opacity', Number(event.target.value)) });
    this.sorter = labelledSelect('Sort by', [], '', (value) => {
      this.#sort = value;
      this.#arrange();
    });
    this.sorter.classList.add('mask-sorter');
    this.sorter.querySelector('select').disabled = true;
    this.list = element('div', { class: 'mask-list', role: 'listbox', tabindex: '0', 'aria-label': 'Masks' });
    this.list.addEventListener('keydown', (event) => this.#pressed(event));
    this.list.addEventListener('click', (event) => {
      const item = event.target.closest('[data-mask]');
      if (item) this.select(Number(item.dataset.mask));
    });
    this.list.addEventListener('pointerover', (event) => this.#hover(event.target.closest('[data-mask]')));
    this.list.addEventListener('pointerleave', () => this.#hover(null));
    this.node = element('section', { class: 'mask-panel', 'aria-label': 'Masks' }, this.title, this.note,
      element('div', { class: 'mask-toggles' }, [...this.toggles.values()]),
      element('label', { class: 'field' }, element('span', {}, 'Opacity'), this.opacity), this.sorter, this.list);
  }

  /** Says why masks cannot be shown; it stays, whatever else arrives. */
  fail(text) {
    this.#problem = text;
    this.#tell();
  }

  #tell(...more) {
    this.note.textContent = [...this.#notes, ...more].join(', ');
    if (this.#problem) this.note.replaceChildren(element('span', { class: 'damaged' }, this.#problem));
  }

  /** Makes the list, when the overlay knows the masks. Again when it knows their attributes, or the image. */
  fill() {
    const { overlay } = this;
    if (!overlay.known) return;
    const masks = overlay.measures.length;
    this.title.textContent = plural(masks, 'mask');
    const notes = [];
    if (overlay.width) notes.push(`${count(overlay.width)} × ${count(overlay.height)} pixels`);
    if (overlay.stretched) {
      notes.push(`stretched to the image's ${count(overlay.image.width)} × ${count(overlay.image.height)}`);
    }
    if (overlay.odd > 0) notes.push(`${plural(overlay.odd, 'mask')} of other sizes not drawn`);
    this.#notes = masks === 0 ? ['This sample has no masks.'] : notes;
    this.scalars = overlay.attributes.filter((attribute) => attribute.perMask === 1);
    const sorts = ['index', 'area', ...this.scalars.map((attribute) => attribute.name).filter((name) => name !== 'area')];
    // The image and the attributes arrive later. What has the focus stays.
    const select = this.sorter.querySelector('select');
    for (const name of sorts.slice(select.options.length)) select.append(element('option', { value: name }, name));
    select.disabled = false;
    this.#arrange();
  }

  /** What the mask at an index is, as [name, text] pairs. */
  facts(index) {
    const { attributes, measures } = this.overlay;
    const pairs = [['mask', count(index)]];
    const names = attributes.map((attribute) => attribute.name);
    if (!names.includes('area')) pairs.push(['area', count(measures[index].area)]);
    if (!names.includes('bbox')) pairs.push(['box', measures[index].box.map(count).join(', ')]);
    for (const attribute of attributes) pairs.push([attribute.name, attributeText(attribute, index)]);
    return pairs;
  }

  /** Selects a mask, or none. */
  select(index) {
    const { overlay } = this;
    this.#items.get(overlay.selected)?.setAttribute('aria-selected', 'false');
    overlay.selected = index;
    const item = this.#items.get(index);
    if (item) {
      item.setAttribute('aria-selected', 'true');
      item.scrollIntoView({ block: 'nearest' });
      this.list.setAttribute('aria-activedescendant', item.id);
    } else {
      this.list.removeAttribute('aria-activedescendant');
    }
    this.onChange();
  }

  /** Selects the mask some places further in the list. */
  step(places) {
    if (this.#order.length === 0) return;
    const now = this.#order.indexOf(this.overlay.selected);
    const next = now < 0 ? (places > 0 ? 0 : this.#order.length - 1) : now + places;
    this.select(this.#order[Math.max(0, Math.min(this.#order.length - 1, next))]);
  }

  /** Turns an option on or off, as its check box does. */
  toggle(name) {
    const input = this.toggles.get(name).querySelector('input');
    input.checked = !input.checked;
    this.#set(name, input.checked);
  }

  #set(name, value) {
    this.overlay.options[name] = value;
    keepSetting('masks', { ...this.overlay.options });
    if (name === 'single' && value && this.overlay.selected === null) this.step(1);
    this.onChange();
  }

  #arrange() {
    const { measures } = this.overlay;
    const attribute = this.scalars.find((other) => other.name === this.#sort);
    let valueOf = (i) => (this.#sort === 'area' ? measures[i].area : i);
    if (attribute) valueOf = (i) => Number(valuesOf(attribute, i)[0]);
    // Small scores and small areas are where mistakes are.
    this.#order = [...measures.keys()].sort((a, b) => valueOf(a) - valueOf(b) || a - b);
    this.#items.clear();
    const shown = this.#order.slice(0, mostListed).map((index) => this.#item(index));
    const more = this.#order.length - shown.length;
    this.list.replaceChildren(...shown);
    const unlisted = more > 0 ? [`${count(more)} more are reached by keys`] : [];
    this.#tell(...unlisted);
    if (this.overlay.options.single && this.overlay.selected === null) this.step(1);
  }

  #item(index) {
    const swatch = element('span', { class: 'swatch' });
    swatch.style.background = maskColourText(index);
    const area = this.overlay.measures[index].area;
    const score = this.scalars.find((attribute) => attribute.name === (this.#sort === 'area' || this.#sort === 'index' ?
      'predicted_iou' : this.#sort)) ?? null;
    const item = element('div', { role: 'option', id: `mask-${index}`, 'data-mask': index,
      'aria-selected': String(index === this.overlay.selected) }, swatch, element('span', { class: 'mask-index' }, index),
    element('span', { class: 'number' }, `${count(area)} px`),
    element('span', { class: 'number' }, score && score.name !== 'area' ? brief(valuesOf(score, index)[0]) : ''));
    this.#items.set(index, item);
    return item;
  }

  #hover(item) {
    const index = item ? Number(item.dataset.mask) : null;
    if (this.overlay.hovered === index) return;
    this.overlay.hovered = index;
    this.onChange();
  }

  #pressed(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (event.key === 'Escape' && this.overlay.selected !== null) {
      event.stopPropagation();
      this.select(null);
    } else if (steps[event.key] !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.step(steps[event.key]);
    }
  }
}

/** A value with as many digits as its neighbours, so that they can be compared down the list. */
function brief(value) {
  const isScore = typeof value === 'number' && !Number.isInteger(value) && Math.abs(value) < 1000;
  return isScore ? value.toFixed(4) : number(value ?? '…');
}

// Makes elements. Texts of datasets are hostile: they only ever become text nodes or attribute values, never markup.

/**
 * Makes an HTML element.
 * @param {string} name tag name
 * @param {Object} properties `class`, attributes, and listeners named on…; null and false are left out
 * @param {...(Node|string|number|null|Array)} children strings become text nodes
 * @returns {HTMLElement}
 */
export function element(name, properties = {}, ...children) {
  return dress(document.createElement(name), properties, children);
}

/**
 * Makes an SVG element; arguments as of element().
 * @returns {SVGElement}
 */
export function svg(name, properties = {}, ...children) {
  return dress(document.createElementNS('http://www.w3.org/2000/svg', name), properties, children);
}

function dress(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) {
      node.addEventListener(key.slice(2), value);
    } else {
      node.setAttribute(key, value === true ? '' : String(value));
    }
  }
  append(node, children);
  return node;
}

/** Replaces what is in a node; children as of element(). */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) {
      append(node, child);
    } else {
      node.append(child instanceof Node ? child : String(child));
    }
  }
}

/**
 * A select with a label before it.
 * @param {string} label
 * @param {{value: string, text: string}[]} options
 * @param {string} value the chosen one
 * @param {function(string)} onChange called with the new value
 * @returns {HTMLLabelElement}
 */
export function labelledSelect(label, options, value, onChange) {
  const select = element('select', { onchange: (event) => onChange(event.target.value) });
  for (const option of options) {
    select.append(element('option', { value: option.value, selected: option.value === value }, option.text));
  }
  return element('label', { class: 'field' }, element('span', {}, label), select);
}

/**
 * A check box with its label.
 * @returns {HTMLLabelElement}
 */
export function checkbox(label, checked, onChange) {
  const input = element('input', { type: 'checkbox', onchange: (event) => onChange(event.target.checked) });
  input.checked = checked;
  return element('label', { class: 'check' }, input, element('span', {}, label));
}

/**
 * A text that says what is damaged, with a sign, so that it is not known by its colour alone.
 * @param {string} tag of the element
 * @returns {HTMLElement}
 */
export function damage(tag, text, className = '') {
  const sign = element('span', { class: 'sign', 'aria-hidden': 'true' }, '!');
  return element(tag, { class: `damaged ${className}`.trim() }, sign, text);
}

/** Tells readers of screens about something that changed elsewhere on the page. */
export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

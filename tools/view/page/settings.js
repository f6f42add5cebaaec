// Remembers choices in this browser. Storage can be forbidden or full: then they last as long as the page.

const prefix = 'shardkit-view:';
const remembered = new Map();

/** The value kept under a name, or `otherwise`. */
export function setting(name, otherwise) {
  if (remembered.has(name)) return remembered.get(name);
  try {
    const text = window.localStorage.getItem(prefix + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Keeps a value that JSON can hold. */
export function keepSetting(name, value) {
  remembered.set(name, value);
  try {
    window.localStorage.setItem(prefix + name, JSON.stringify(value));
  } catch {
    // The map above still has it.
  }
}

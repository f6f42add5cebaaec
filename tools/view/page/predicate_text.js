// Writes names and texts as the language of conditions wants them.

const reserved = new Set(['and', 'or', 'not', 'in', 'is', 'null', 'true', 'false', 'any', 'all', 'count', 'min', 'max', 'mean',
  'sum', 'len', 'starts_with']);

function quoted(text, mark) {
  return mark + text.replaceAll('\\', '\\\\').replaceAll(mark, `\\${mark}`) + mark;
}

/** The name of a column; in back quotes when it is no plain word. */
export function nameText(name) {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !reserved.has(name.toLowerCase()) ? name : quoted(name, '`');
}

/** The condition that a text column has a value. */
export function equalsText(name, value) {
  return `${nameText(name)} = ${quoted(value, '"')}`;
}

/** Whether a text can only be a condition, and no key. */
export function looksLikeCondition(text) {
  return /[=<>~()"'`]|\b(and|or|not|in|is)\s/i.test(text);
}

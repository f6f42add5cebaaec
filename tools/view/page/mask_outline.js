// Outlines of masks, from the runs: only where a run ends, or where the neighbouring column has none, is there an edge.

import { forEachInterval } from './masks.js';

/**
 * Paints the inner edge of a mask.
 * @param {Mask} mask
 * @param {number} thickness in pixels
 * @param {function(number, number, number)} paint gets x, the first y, and the y after the last; x may be any column
 */
export function outline(mask, thickness, paint) {
  let before = [];        // the intervals of the column to the left, as from, to, from, to
  let beforeX = -2;
  let column = [];
  let columnX = -2;
  const endColumn = () => {
    if (columnX < 0) return;
    const left = beforeX === columnX - 1 ? before : [];
    for (let i = 0; i < column.length; i += 2) {
      paint(columnX, column[i], Math.min(column[i + 1], column[i] + thickness));
      paint(columnX, Math.max(column[i], column[i + 1] - thickness), column[i + 1]);
    }
    difference(column, left, (from, to) => {
      for (let i = 0; i < thickness && columnX + i < mask.width; i++) paint(columnX + i, from, to);
    });
    if (beforeX >= 0) rightEdge(before, beforeX, beforeX === columnX - 1 ? column : []);
  };
  const rightEdge = (intervals, x, right) => difference(intervals, right, (from, to) => {
    for (let i = 0; i < thickness && x - i >= 0; i++) paint(x - i, from, to);
  });
  forEachInterval(mask, (x, from, to) => {
    if (x !== columnX) {
      endColumn();
      [before, beforeX] = [column, columnX];
      [column, columnX] = [[], x];
    }
    column.push(from, to);
  });
  endColumn();
  if (columnX >= 0) rightEdge(column, columnX, []);
}

/** The parts of ascending intervals `a` that are not in ascending intervals `b`. */
function difference(a, b, visit) {
  let j = 0;
  for (let i = 0; i < a.length; i += 2) {
    let from = a[i];
    const to = a[i + 1];
    while (j < b.length && b[j + 1] <= from) j += 2;
    for (let k = j; k < b.length && b[k] < to; k += 2) {
      if (b[k] > from) visit(from, b[k]);
      from = Math.max(from, b[k + 1]);
    }
    if (from < to) visit(from, to);
  }
}

// EXIF orientation: browsers show images upright, while masks lie on the pixels as they are stored.

/**
 * Whether width and height change places when the image is shown.
 * @param {number} orientation 0 (not said) to 8
 */
export function swapsSides(orientation) {
  return orientation >= 5 && orientation <= 8;
}

/**
 * The transformation from stored pixels to shown ones: x' = a*x + c*y + e, y' = b*x + d*y + f.
 * @param {number} orientation 0 (not said) to 8
 * @param {number} width of the stored image in pixels
 * @param {number} height
 * @returns {number[]} a, b, c, d, e, f, as a canvas takes them
 */
export function uprightTransform(orientation, width, height) {
  switch (orientation) {
    case 2: return [-1, 0, 0, 1, width, 0];
    case 3: return [-1, 0, 0, -1, width, height];
    case 4: return [1, 0, 0, -1, 0, height];
    case 5: return [0, 1, 1, 0, 0, 0];
    case 6: return [0, 1, -1, 0, height, 0];
    case 7: return [0, -1, -1, 0, height, width];
    case 8: return [0, -1, 1, 0, 0, width];
    default: return [1, 0, 0, 1, 0, 0];
  }
}

/** Applies a transformation to a point. */
export function apply([a, b, c, d, e, f], x, y) {
  return [a * x + c * y + e, b * x + d * y + f];
}

/** The opposite transformation, of those that uprightTransform returns. */
export function inverse([a, b, c, d, e, f]) {
  const determinant = a * d - b * c;
  return [d / determinant, -b / determinant, -c / determinant, a / determinant,
    (c * f - d * e) / determinant, (b * e - a * f) / determinant];
}

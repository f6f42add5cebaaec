// Pictures at several sizes. Drawing the one that is nearest to the size on the screen is fast, and does not flicker.

const smallestSide = 512;  // pixels of the longer side; smaller sizes are not worth it

/**
 * A picture, and its halves, quarters and so on.
 * @param {ImageBitmap} bitmap
 * @returns {Promise<ImageBitmap[]>} the largest first
 */
export async function pyramid(bitmap) {
  const levels = [bitmap];
  for (let last = bitmap; Math.max(last.width, last.height) > smallestSide; last = levels[levels.length - 1]) {
    levels.push(await createImageBitmap(last, {
      resizeWidth: Math.max(1, Math.round(last.width / 2)),
      resizeHeight: Math.max(1, Math.round(last.height / 2)),
      resizeQuality: 'medium',
    }));
  }
  return levels;
}

/**
 * Draws a picture at (x, y), as large as its first level unless a size is given.
 * @param {CanvasRenderingContext2D} context with the present transformation
 * @param {ImageBitmap[]} levels of pyramid()
 * @param {number} scale device pixels per pixel of the first level
 */
export function drawPicture(context, levels, scale, x = 0, y = 0, width = levels[0].width, height = levels[0].height) {
  const level = Math.max(0, Math.min(levels.length - 1, Math.floor(Math.log2(1 / scale))));
  context.drawImage(levels[level], x, y, width, height);
}

/** Frees the memory of a picture. */
export function closePicture(levels) {
  for (const level of levels ?? []) level.close();
}

// A colour for each mask, the same wherever and whenever the mask is shown.

const goldenAngle = 137.50776;  // degrees: neighbouring numbers get hues far apart
const lightnesses = [0.62, 0.74, 0.54];

/**
 * @param {number} index of the mask
 * @returns {number[]} red, green and blue, 0 to 255
 */
export function maskColour(index) {
  const hue = (index * goldenAngle + 20) % 360;
  return fromHsl(hue, 0.88, lightnesses[index % lightnesses.length]);
}

/** The colour as a style sheet writes it. */
export function maskColourText(index) {
  return `rgb(${maskColour(index).join(', ')})`;
}

function fromHsl(hue, saturation, lightness) {
  const reach = saturation * Math.min(lightness, 1 - lightness);
  return [0, 8, 4].map((offset) => {
    const k = (offset + hue / 30) % 12;
    return Math.round(255 * (lightness - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  });
}

// Where an image lies in its frame: arithmetic of zooming and moving, in CSS pixels.

const largestScale = 64;  // CSS pixels per image pixel

export class StageView {
  scale = 1;
  x = 0;   // of the image's left edge in the frame
  y = 0;
  #fitted = true;

  /** Takes the sizes of the frame and the image; a fitted image stays fitted. */
  resize(frameWidth, frameHeight, imageWidth, imageHeight) {
    Object.assign(this, { frameWidth, frameHeight, imageWidth, imageHeight });
    if (this.#fitted) {
      this.fit();
    } else {
      this.#bound();
    }
  }

  get fitScale() {
    return Math.min(this.frameWidth / this.imageWidth, this.frameHeight / this.imageHeight, 16);
  }

  /** Shows the whole image as large as possible. */
  fit() {
    this.scale = this.fitScale;
    this.#fitted = true;
    this.#bound();
  }

  /** Zooms by a factor; the point (x, y) of the frame stays where it is. */
  zoom(factor, x = this.frameWidth / 2, y = this.frameHeight / 2) {
    // A small image is enlarged to fit; a person may want to see its pixels as they are.
    const least = Math.min(this.fitScale, 1);
    const scale = Math.max(least, Math.min(Math.max(largestScale, this.fitScale), this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.#fitted = scale === this.fitScale;
    this.#bound();
  }

  /** Moves the image. */
  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.#bound();
  }

  /** The point of the shown image below a point of the frame, in image pixels. */
  imagePoint(x, y) {
    return [(x - this.x) / this.scale, (y - this.y) / this.scale];
  }

  /** Keeps the image in the frame, or the frame in the image. */
  #bound() {
    // In the middle, but on whole pixels: between two of them an image that is shown 1:1 would be blurred.
    const within = (offset, size, frame) => (size <= frame ? Math.round((frame - size) / 2) : Math.min(0, Math.max(frame - size, offset)));
    this.x = within(this.x, this.imageWidth * this.scale, this.frameWidth);
    this.y = within(this.y, this.imageHeight * this.scale, this.frameHeight);
  }
}

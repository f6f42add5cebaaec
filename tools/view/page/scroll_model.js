// Maps a scroll bar of limited length to a list of any height. Browsers limit the height of an element to some millions
// of pixels, and 10^9 samples are taller than that.
//
// Near both ends a pixel of the bar is a pixel of the list, so that every row there is reached as in any other list.
// Between them the bar is proportional; moves by wheel, touch and keys remain pixel for pixel (see `moved`).

const longest = 4_000_000;  // pixels of the scroll area
const edge = 500_000;       // pixels at each end that are mapped one to one

export class ScrollModel {
  contentHeight = 0;  // of all rows, in pixels
  viewHeight = 0;     // of what is seen
  position = 0;       // pixels of the content above what is seen
  scrollTop = 0;      // what the element's scrollTop is known to be

  /** The height that the scrolled element gets. */
  get areaHeight() {
    return Math.min(this.contentHeight, longest);
  }

  /** The largest position: the last row is seen as a whole there. */
  get limit() {
    return Math.max(0, this.contentHeight - this.viewHeight);
  }

  get scrollLimit() {
    return Math.max(0, this.areaHeight - this.viewHeight);
  }

  /** Takes new heights, as when the window is resized or the dataset grows; the position stays. */
  resize(contentHeight, viewHeight) {
    this.contentHeight = contentHeight;
    this.viewHeight = viewHeight;
    this.position = Math.min(this.position, this.limit);
  }

  /** The scrollTop that stands for a position. */
  scrollTopOf(position) {
    if (this.contentHeight <= longest) return Math.min(position, this.scrollLimit);
    if (position <= edge) return position;
    if (this.limit - position <= edge) return this.scrollLimit - (this.limit - position);
    return edge + ((position - edge) * (this.scrollLimit - 2 * edge)) / (this.limit - 2 * edge);
  }

  /** The position that a scrollTop stands for. */
  positionOf(scrollTop) {
    if (this.contentHeight <= longest) return Math.min(scrollTop, this.limit);
    if (scrollTop <= edge) return Math.max(0, scrollTop);
    if (this.scrollLimit - scrollTop <= edge) return this.limit - Math.max(0, this.scrollLimit - scrollTop);
    return edge + ((scrollTop - edge) * (this.limit - 2 * edge)) / (this.scrollLimit - 2 * edge);
  }

  /**
   * Takes the element's scrollTop after a person moved it. A short move is by wheel, touch or keys, and moves the list by
   * as many pixels. A long one is of the bar: a pixel of a dragged bar is thousands of pixels of the area.
   * @returns {boolean} whether it was a jump
   */
  moved(scrollTop) {
    const delta = scrollTop - this.scrollTop;
    this.scrollTop = scrollTop;
    if (Math.abs(delta) <= 2 * this.viewHeight) {
      this.position = Math.min(this.limit, Math.max(0, this.position + delta));
      return false;
    }
    this.position = this.positionOf(scrollTop);
    return true;
  }

  /** Whether the element's scrollTop is no longer what stands for the position, and should be set again. */
  get drifted() {
    return Math.abs(this.scrollTopOf(this.position) - this.scrollTop) >= 1;
  }
}

// Rows to look at: pictures, or cards of a table's columns; those that come next are fetched before they are shown.

import { ask, make } from "./common.js";

const CRISP = 128; // pixels: smaller pictures are enlarged without blur,
const TIMES = 28; // at most so many times: very large pixels are hard to read
const KEPT = 60, SHORT = 5;

const pictureOf = (row, small) => `/api/label/picture/${row}${small ? "?small=1" : ""}`;

/** Return an image element of a row. */
export function picture(row, name, { small = false } = {}) {
  const image = make("img", { alt: name, decoding: "async" });
  image.addEventListener("load", () => {
    const side = Math.max(image.naturalWidth, image.naturalHeight);
    image.classList.toggle("crisp", side <= (small ? CRISP / 2 : CRISP));
    image.style.setProperty("--most", `${image.naturalHeight * TIMES}px`);
  });
  image.src = pictureOf(row, small);
  return image;
}

/** Return a card of a table's row. */
export function card({ cells, more }, { most = Infinity } = {}) {
  const list = make("dl", { class: "card" });
  for (const { name, text, unusual, place } of cells.slice(0, most)) {
    const value = make("dd", unusual ? { class: "unusual" } : {}, text || make("span", { class: "note" }, "empty"));
    if (unusual && most === Infinity) value.append(" ", make("small", {}, unusual));
    if (place !== null && most === Infinity) {
      const track = make("span", { class: "track", "aria-hidden": "true" }, make("span"));
      track.firstChild.style.setProperty("--place", place);
      value.append(track);
    }
    list.append(make("div", {}, make("dt", {}, name), value));
  }
  const hidden = most === Infinity ? more : 0;
  if (hidden) list.append(make("div", { class: "note" }, `and ${hidden} more columns`));
  return list;
}

/** Keeps elements of rows that are shown soon. */
export class Views {
  constructor(images) {
    this.images = images;
    this.kept = new Map();
  }

  /** Return the element of a row, at once; a card fills itself. */
  of(row) {
    if (this.kept.has(row)) return this.kept.get(row);
    let element;
    if (this.images) {
      element = picture(row, `row ${row}, to label`);
    } else {
      element = make("div", { class: "card-place" });
      ask(`/api/label/card/${row}`).then((found) => element.replaceChildren(card(found)), () => this.kept.delete(row));
    }
    if (this.images) element.addEventListener("error", () => this.kept.delete(row));
    this.kept.set(row, element);
    for (const old of [...this.kept.keys()].slice(0, Math.max(0, this.kept.size - KEPT))) this.kept.delete(old);
    return element;
  }

  /** A small element of a row. */
  small(row, name) {
    if (this.images) return picture(row, name, { small: true });
    const place = make("div", { class: "card-place small" });
    ask(`/api/label/card/${row}`).then((found) => place.replaceChildren(card(found, { most: SHORT })), () => {});
    return place;
  }
}

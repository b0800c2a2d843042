// The drawing area: pixels of the model's size, a mask of the missing ones, a brush for pointers and for keys.
import { asImage } from "./pictures.js";

const UNDO = 50; // strokes that can be undone
const SOFT = 0.9; // pixels over which the brush's edge fades
const SIZES = { draw: 0.045, dark: 0.05, erase: 0.06 }; // radius of the brush as a part of the shorter side
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Pad {
  /** `changed(strokeIsOver)` is called at every change; `moved(text)` when the keyboard's cursor moves. */
  constructor(canvas, shape, { changed, moved }) {
    Object.assign(this, { canvas, shape, changed, moved });
    this.pixels = new Uint8Array(shape.height * shape.width * shape.channels);
    this.missing = new Uint8Array(shape.height * shape.width);
    this.tool = "draw";
    this.brush = 1;
    this.colour = [255, 255, 255];
    this.before = []; // states to undo to
    this.cursor = { x: (shape.width - 1) / 2 | 0, y: (shape.height - 1) / 2 | 0, shown: false, down: false };
    this.small = document.createElement("canvas");
    this.small.width = shape.width;
    this.small.height = shape.height;
    this.scale = Math.max(1, Math.round(560 / shape.width));
    canvas.width = shape.width * this.scale;
    canvas.height = shape.height * this.scale;
    this.listen();
    this.show();
  }

  get isEmpty() {
    return !this.pixels.some(Boolean) && !this.missing.some(Boolean);
  }

  get hasHole() {
    return this.missing.some(Boolean);
  }

  listen() {
    let last = null;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [
        ((event.clientX - box.left) / box.width) * this.shape.width - 0.5,
        ((event.clientY - box.top) / box.height) * this.shape.height - 0.5,
      ];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.focus({ preventScroll: true });
      this.cursor.shown = false;
      this.keep();
      last = place(event);
      this.stroke(last, last);
      this.changed(false);
      event.preventDefault();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const events = event.getCoalescedEvents?.() ?? [];
      for (const each of events.length ? events : [event]) {
        const next = place(each);
        this.stroke(last, next);
        last = next;
      }
      this.changed(false);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(name, () => {
        if (last) this.changed(true);
        last = null;
      });
    }
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => {
      this.cursor.shown = this.canvas.matches(":focus-visible");
      this.show();
    });
    this.canvas.addEventListener("blur", () => {
      this.cursor.shown = this.cursor.down = false;
      this.show();
    });
  }

  key(event) {
    const step = STEPS[event.key], cursor = this.cursor;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
      this.undo();
    } else if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    } else if (step) {
      const from = [cursor.x, cursor.y];
      cursor.x = Math.min(Math.max(cursor.x + step[0], 0), this.shape.width - 1);
      cursor.y = Math.min(Math.max(cursor.y + step[1], 0), this.shape.height - 1);
      cursor.shown = true;
      if (cursor.down || event.shiftKey) {
        if (!cursor.down) this.keep();
        this.stroke(from, [cursor.x, cursor.y]);
        this.changed(!cursor.down);
      } else {
        this.show();
      }
      this.moved(`row ${cursor.y + 1}, column ${cursor.x + 1}${cursor.down ? ", tool down" : ""}`);
    } else if (event.key === " ") {
      cursor.shown = true;
      cursor.down = !cursor.down;
      if (cursor.down) {
        this.keep();
        this.stroke([cursor.x, cursor.y], [cursor.x, cursor.y]);
      } else {
        this.show();
      }
      this.changed(!cursor.down);
      this.moved(cursor.down ? "tool down" : "tool lifted");
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Use the tool along a line between two places in pixels. */
  stroke([x0, y0], [x1, y1]) {
    const { height, width, channels } = this.shape;
    const radius = Math.max(SIZES[this.tool] * Math.min(height, width) * this.brush, 0.35);
    const reach = radius + SOFT, length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
    for (let y = Math.max(0, Math.ceil(Math.min(y0, y1) - reach)); y <= Math.min(height - 1, Math.max(y0, y1) + reach); y++) {
      for (let x = Math.max(0, Math.ceil(Math.min(x0, x1) - reach)); x <= Math.min(width - 1, Math.max(x0, x1) + reach); x++) {
        const along = length ? Math.min(Math.max(((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length, 0), 1) : 0;
        const distance = Math.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0));
        const strength = Math.min(Math.max((reach - distance) / SOFT, 0), 1), i = y * width + x;
        if (this.tool === "erase") {
          if (strength > 0.4) this.missing[i] = 1;
        } else if (strength > 0) {
          if (this.tool === "draw") this.missing[i] = 0;
          for (let c = 0; c < channels; c++) this.mix(i * channels + c, strength, c);
        }
      }
    }
    this.show();
  }

  mix(place, strength, channel) {
    const old = this.pixels[place];
    if (this.tool === "dark") this.pixels[place] = Math.min(old, 255 * (1 - strength));
    else if (this.shape.channels === 1) this.pixels[place] = Math.max(old, 255 * strength);
    else this.pixels[place] = Math.max(0, old + (this.colour[channel] - old) * strength);
  }

  /** Keep the present state for `undo`. */
  keep() {
    this.before.push([this.pixels.slice(), this.missing.slice()]);
    if (this.before.length > UNDO) this.before.shift();
  }

  undo() {
    const state = this.before.pop();
    if (!state) return;
    [this.pixels, this.missing] = state;
    this.show();
    this.changed(true);
  }

  /** Replace the picture, or only the mask of missing pixels. */
  set(pixels, missing = new Uint8Array(this.missing.length)) {
    this.keep();
    if (pixels) this.pixels = pixels;
    this.missing = missing;
    this.show();
    this.changed(true);
  }

  show() {
    const { width, height } = this.shape, context = this.canvas.getContext("2d"), scale = this.scale;
    this.small.getContext("2d").putImageData(asImage(this.pixels, this.shape), 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.small, 0, 0, width * scale, height * scale);
    context.lineWidth = Math.max(1, scale / 9);
    for (let i = 0; i < width * height; i++) {
      if (!this.missing[i]) continue;
      const x = (i % width) * scale, y = Math.floor(i / width) * scale;
      context.fillStyle = "#5b3a1f";
      context.fillRect(x, y, scale, scale);
      context.strokeStyle = "#ff8f47";
      context.beginPath();
      context.moveTo(x, y + scale);
      context.lineTo(x + scale, y);
      context.stroke();
    }
    if (this.cursor.shown) {
      const x = this.cursor.x * scale, y = this.cursor.y * scale;
      for (const [colour, thick] of [["#000000", 6], [this.cursor.down ? "#ff8f47" : "#56b4e9", 3]]) {
        context.strokeStyle = colour;
        context.lineWidth = thick;
        context.strokeRect(x - 1, y - 1, scale + 2, scale + 2);
      }
    }
  }
}

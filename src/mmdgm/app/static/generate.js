// Generate images: sliders of style, all classes in one style.
import { ask, byId, make, newest, tell } from "./common.js";
import { decode, paint } from "./pictures.js";

/** `style()` asks for the code of the drawing; `use(bytes)` takes an image as drawing. */
export function startGenerating(about, { style, use }) {
  const size = about.directions[0].length, far = about.farthest;
  const names = about.by_class ? about.classes : [""];
  let code = new Array(size).fill(0), images = [], chosen = 0;
  byId("generation").hidden = false;
  byId("use").hidden = byId("style").hidden = !about.draws;
  byId("style").disabled = true;
  byId("classes").hidden = !about.by_class;

  const sliders = about.directions.map((direction, i) => {
    const slider = make("input", { type: "range", min: -far, max: far, step: 0.05, value: 0 });
    slider.addEventListener("input", () => {
      const change = Number(slider.value) - along(direction);
      code = code.map((value, j) => value + change * direction[j]);
      show();
    });
    byId("sliders").append(make("label", {}, `Style ${i + 1}`, slider));
    return slider;
  });
  const along = (direction) => direction.reduce((sum, value, j) => sum + value * code[j], 0);
  const pictures = names.map((name, k) => {
    const canvas = make("canvas", { "aria-hidden": "true" });
    const radio = make("input", { type: "radio", name: "class", value: k, "aria-label": `class ${name}` });
    radio.checked = k === chosen;
    radio.addEventListener("change", () => {
      chosen = k;
      large();
    });
    byId("classes").append(make("label", {}, radio, canvas, name));
    return canvas;
  });

  const large = () => {
    paint(byId("chosen"), images[chosen], about);
    byId("chosen").setAttribute("aria-label", about.by_class ? `generated image of class ${names[chosen]}` : "generated image");
  };
  const show = newest(async () => {
    ({ images } = await ask("/api/generate", { code }));
    images.forEach((image, k) => paint(pictures[k], image, about));
    pictures.forEach((canvas, k) => (canvas.parentElement.hidden = k >= images.length));
    large();
  });
  const take = (next, title) => {
    code = next;
    sliders.forEach((slider, i) => (slider.value = along(about.directions[i])));
    byId("classes-title").textContent = title;
    show();
  };
  byId("average").addEventListener("click", () => take(new Array(size).fill(0), "The average style in all classes"));
  byId("random").addEventListener("click", () => take(code.map(normal), "This style in all classes"));
  byId("style").addEventListener("click", async () => {
    try {
      take((await style()).code, "Your style in all classes");
    } catch (error) {
      tell(error.message);
    }
  });
  byId("use").addEventListener("click", () => use(decode(images[chosen])));
  take(code, "The average style in all classes");
  return { canCopy: (possible) => (byId("style").disabled = !possible) };
}

/** A draw of the standard normal distribution (Box and Muller). */
const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());

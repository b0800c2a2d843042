// Play with images: draw, erase, see it classified and completed.
import { ask, byId, make, newest, tell } from "./common.js";
import { startGenerating } from "./generate.js";
import { Pad } from "./pad.js";
import { decode, encode, paint } from "./pictures.js";
import { showScores } from "./scores.js";

const FRAME = 70; // milliseconds for a round
const LARGEST_FILE = 8 * 2 ** 20;

export function startImages(about) {
  for (const id of ["drawing", "prediction"]) byId(id).hidden = !about.draws;
  byId("completion").hidden = !(about.draws && about.generates);
  byId("tools").querySelector("[value=erase]").parentElement.hidden = !about.completes;
  byId("restore").hidden = !about.completes;
  byId("colour-label").hidden = about.channels === 1;
  byId("example").hidden = !about.examples;
  const generating = about.generates ? startGenerating(about, { style: () => ask("/api/style", picture()), use: (bytes) => pad.set(bytes) }) : null;
  let pad = null;
  if (!about.draws) return;

  const film = startFilm(about);
  showScores(about.classes, null);

  const picture = () => ({ pixels: encode(pad.pixels), missing: encode(pad.missing) });
  const look = newest(async (strokeIsOver) => {
    if (pad.isEmpty) return nothing();
    const answer = await ask("/api/look", picture());
    if (pad.isEmpty) return nothing();
    tell("");
    showScores(about.classes, answer);
    film.show(answer, strokeIsOver);
  });
  const nothing = () => {
    showScores(about.classes, null);
    film.show(null);
  };
  const changed = (strokeIsOver) => {
    byId("undo").disabled = !pad.before.length;
    byId("restore").disabled = !pad.hasHole;
    byId("pad-hint").textContent = pad.isEmpty ? hint : "";
    generating?.canCopy(!pad.isEmpty);
    look(strokeIsOver);
  };
  const hint = "Draw with mouse, finger, pen or keys";
  pad = new Pad(byId("pad"), about, { changed, moved: (text) => (byId("pad-place").textContent = text) });
  changed(true);

  byId("tools").addEventListener("change", (event) => (pad.tool = event.target.value));
  byId("brush").addEventListener("input", (event) => (pad.brush = Number(event.target.value)));
  byId("colour").addEventListener("input", ({ target }) => {
    pad.colour = [1, 3, 5].map((i) => parseInt(target.value.slice(i, i + 2), 16));
  });
  byId("undo").addEventListener("click", () => pad.undo());
  byId("restore").addEventListener("click", () => pad.set(null));
  byId("clear").addEventListener("click", () => {
    byId("done").textContent = "";
    pad.set(new Uint8Array(pad.pixels.length));
  });
  const take = async (answer) => {
    tell("");
    pad.set(decode(answer.pixels));
    byId("done").textContent = answer.done;
  };
  byId("example").addEventListener("click", () => ask("/api/example", {}).then(take).catch((error) => tell(error.message)));
  const send = async (file) => {
    if (!file) return;
    try {
      if (file.size > LARGEST_FILE) throw new Error(`${file.name}: is larger than ${LARGEST_FILE / 2 ** 20} MiB`);
      await take(await ask("/api/upload", file));
    } catch (error) {
      tell(error.message);
    }
  };
  byId("load").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", async ({ target }) => {
    await send(target.files[0]);
    target.value = ""; // the same file can be loaded again
  });
  byId("drawing").addEventListener("dragover", (event) => event.preventDefault());
  byId("drawing").addEventListener("drop", (event) => {
    event.preventDefault();
    send(event.dataTransfer.files[0]);
  });
}

/** The completed image: the rounds as an animation, draws, and their mean. */
function startFilm(about) {
  const canvas = byId("completed"), slider = byId("round"), button = byId("animate");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const dark = new Uint8Array(about.height * about.width * about.channels);
  let answer = null, timer = 0;
  const frame = (number) => {
    const rounds = answer.rounds.length - 1;
    slider.value = number;
    paint(canvas, number > rounds ? answer.mean : answer.rounds[number], about);
    byId("round-name").textContent = number > rounds ? "mean of draws" : number ? `round ${number} of ${rounds}` : "start: noise";
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
    button.setAttribute("aria-pressed", "false");
  };
  const start = () => {
    stop();
    let number = 0;
    frame(number);
    button.textContent = "Pause";
    button.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      frame(++number);
      if (number >= answer.rounds.length) stop();
    }, FRAME);
  };
  button.addEventListener("click", () => (timer ? stop() : start()));
  slider.addEventListener("input", () => {
    stop();
    frame(Number(slider.value));
  });
  const draws = byId("draws");
  return {
    show(next, strokeIsOver) {
      answer = next?.rounds ? next : null;
      byId("rounds").hidden = !answer;
      byId("completion-title").textContent = !next || answer || !about.generates ? "Completed" : "Rebuilt by the model";
      byId("completed-note").textContent = answer ? ""
        : !about.completes ? "The image as the model rebuilds it from its code."
          : next ? "Nothing is missing: this is the image as the model rebuilds it from its code. Erase a part to see it completed."
            : "Draw something, then erase a part of it: the model fills it in.";
      if (!answer) {
        stop();
        paint(canvas, next?.rebuilt ?? dark, about);
        return;
      }
      slider.max = answer.rounds.length;
      if (draws.children.length !== answer.draws.length) {
        draws.replaceChildren(...answer.draws.map((_, i) => make("canvas", { role: "img", "aria-label": `draw ${i + 1}` })));
      }
      answer.draws.forEach((draw, i) => paint(draws.children[i], draw, about));
      if (strokeIsOver && !still) {
        start();
      } else {
        stop();
        frame(answer.rounds.length);
      }
    },
  };
}

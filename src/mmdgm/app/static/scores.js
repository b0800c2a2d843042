// The prediction: its name, and a bar per class.
import { byId, make } from "./common.js";

const MOST = 14; // classes that are shown; of more, those with the largest scores
let speaking = 0;

/** Show an answer with `prediction`, `scores`, and their range `low`, `high`; null: there is nothing to classify. */
export function showScores(classes, answer) {
  const name = answer ? classes[answer.prediction] : "–";
  byId("predicted").textContent = name;
  byId("short").textContent = answer ? `prediction: ${name}` : "";
  byId("predicted").parentElement.classList.toggle("words", name.length > 6);
  clearTimeout(speaking); // a screen reader hears where a change ends, not each step of it
  speaking = setTimeout(() => (byId("spoken").textContent = answer ? `predicted: ${name}` : ""), 600);
  const body = byId("scores");
  if (!answer) {
    body.replaceChildren(...classes.slice(0, MOST).map((each) => line(each)));
    byId("whiskers").hidden = true;
    return;
  }
  const { scores, low, high } = answer;
  let shown = classes.map((_, k) => k);
  if (shown.length > MOST) shown = shown.sort((a, b) => scores[b] - scores[a]).slice(0, MOST);
  const least = Math.min(0, ...shown.map((k) => low[k])), most = Math.max(0, ...shown.map((k) => high[k]));
  const part = (value) => (100 * (value - least)) / (most - least || 1);
  byId("whiskers").hidden = !shown.some((k) => high[k] - low[k] > 1e-6);
  if (body.children.length !== shown.length) body.replaceChildren(...shown.map(() => line("")));
  shown.forEach((k, i) => {
    const row = body.children[i], [bar, zero, whisker] = row.querySelector(".track").children;
    row.classList.toggle("best", k === answer.prediction);
    row.firstChild.textContent = classes[k];
    row.lastChild.textContent = scores[k].toFixed(2);
    span(bar, part(Math.min(scores[k], 0)), part(Math.max(scores[k], 0)));
    zero.style.left = `${part(0)}%`;
    zero.hidden = false;
    span(whisker, part(low[k]), part(high[k]));
  });
}

function span(element, from, to) {
  element.style.left = `${from}%`;
  element.style.width = `${to - from}%`;
}

function line(name) {
  const track = make("div", { class: "track", "aria-hidden": "true" }, ...["bar", "zero", "whisker"].map((part) => make("span", { class: part })));
  track.children[1].hidden = true;
  return make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, track), make("td", {}, ""));
}

// The panels beside the rows: progress, the honest error, guesses, training, downloads.

import { ask, byId, make, tell } from "./common.js";

const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const percent = (value) => (value < 10 && value % 1 ? value.toFixed(1) : value.toFixed(0));

export function showProgress(state, onlyChecks) {
  byId("labeled").textContent = state.labeled.toLocaleString("en");
  const others = [state.unsure && `${state.unsure} can’t say`, state.skipped && `${state.skipped} skipped`];
  byId("of-rows").textContent = [`labeled of ${state.rows.toLocaleString("en")}`, ...others].filter(Boolean).join(", ");
  const { low, high, checks, wrong, fewest } = state.estimate;
  const known = high !== undefined;
  byId("error").textContent = !known ? "not yet" : wrong ? `${percent(low)} to ${percent(high)} %` : `under ${percent(high)} %`;
  byId("error-note").textContent = known ? "of the guesses are wrong" : "error of the guesses";
  byId("error-more").textContent = known
    ? `95 % interval: ${wrong} of ${checks} random rows were guessed wrong before you answered.`
    : `${checks} of at least ${fewest} random rows are answered. From the 20th label on, every fifth row is a random one.`;
  byId("checks").setAttribute("aria-pressed", onlyChecks);
}

export function showGuesses(state, open) {
  const total = Object.values(state.guessed).reduce((sum, n) => sum + n, 0);
  const behind = state.version - state.guesses_of;
  const from = state.source === "labels" ? "propagated from your labels" : `by ${state.source}`;
  byId("guess-note").textContent = !state.ready
    ? "Comparing all rows; until that is done, rows are asked in random order …"
    : total ? `${count(total, "row")} guessed, ${from}${behind > 0 && state.source === "labels" ? " …" : ""}` : "Guesses come with the first labels.";
  byId("sources").hidden = state.sources.length < 2;
  const wanted = state.sources.join() + state.source;
  if (byId("sources").dataset.shown !== wanted) {
    byId("sources").dataset.shown = wanted;
    const legend = byId("sources").querySelector("legend");
    byId("sources").replaceChildren(legend, ...state.sources.map((source) => {
      const input = make("input", { type: "radio", name: "source", value: source });
      input.checked = source === state.source;
      return make("label", {}, input, make("span", {}, source === "labels" ? "Propagated labels" : "Classifier"));
    }));
  }
  const most = Math.max(1, ...Object.values(state.guessed));
  const bars = Object.entries(state.guessed).map(([name, n]) => {
    const bar = make("button", { type: "button" }, make("span", { class: "bar-name" }, name), make("span", { class: "bar" }), make("span", { class: "bar-n" }, n.toLocaleString("en")));
    bar.style.setProperty("--share", n / most);
    bar.setAttribute("aria-label", `${name}: ${count(n, "row")} guessed; show them`);
    bar.addEventListener("click", () => open(name));
    return make("li", {}, bar);
  });
  const key = JSON.stringify(state.guessed);
  if (byId("bars").dataset.shown === key) return;
  byId("bars").dataset.shown = key;
  const longest = Math.max(1, ...Object.keys(state.guessed).map((name) => name.length));
  byId("bars").style.setProperty("--name", `${longest + 1}ch`);
  byId("bars").replaceChildren(...bars);
}

export function showTraining({ training, classes, sources }) {
  const { state, number, step, steps, seconds, limit, line } = training;
  const running = state === "running" || state === "ending";
  byId("train").hidden = byId("minutes").parentElement.hidden = running;
  byId("train").disabled = classes.filter((each) => each.n).length < 2;
  byId("cancel").hidden = !running;
  byId("cancel").disabled = state === "ending";
  byId("resume").hidden = state !== "stopped";
  const bar = byId("progress");
  bar.hidden = !running;
  const share = step === undefined ? 0 : Math.max(steps ? step / steps : 0, limit ? seconds / limit : 0);
  if (share) bar.value = Math.min(1, share);
  else bar.removeAttribute("value");
  const at = step === undefined ? line || "starting" : `step ${step.toLocaleString("en")}${steps ? ` of ${steps.toLocaleString("en")}` : ""}, ${Math.round(seconds)} s`;
  byId("train-note").textContent = {
    none: byId("train").disabled ? "Needs labels of two classes." : "Learns from all rows, in the background. At most these minutes.",
    running: `Training ${number}: ${at}`,
    ending: "Saving a checkpoint …",
    stopped: `Training ${number} was stopped${step === undefined ? "" : ` at ${at}`}.`,
    failed: `Training ${number} failed: ${line || "see its folder"}`,
    done: sources.length > 1 ? `Training ${number} is done.` : `Training ${number} is done; its guesses are on the way …`,
  }[state];
}

export function showDownloads(state) {
  const total = Object.keys(state.guessed).length;
  for (const [name, there] of [["needs-guesses", total], ["needs-model", state.sources.length > 1]]) {
    for (const link of document.querySelectorAll(`.${name}`)) {
      link.toggleAttribute("aria-disabled", !there);
      if (there) link.href = link.dataset.href ?? link.href;
      else {
        link.dataset.href ??= link.getAttribute("href");
        link.removeAttribute("href");
      }
    }
  }
}

/** Let the buttons of training and sources ask the server; `show` is given the state that it answers. */
export function listen(show) {
  const post = async (path, body) => {
    try {
      show(await ask(path, body));
      tell("");
    } catch (error) {
      tell(error.message);
    }
  };
  for (const [button, what] of [["train", "start"], ["resume", "resume"]]) {
    byId(button).addEventListener("click", () => post("/api/label/train", { do: what, minutes: Number(byId("minutes").value) || null }));
  }
  byId("cancel").addEventListener("click", () => post("/api/label/train", { do: "cancel" }));
  byId("sources").addEventListener("change", (event) => post("/api/label/source", { source: event.target.value }));
}

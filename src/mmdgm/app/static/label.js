// The page Label: one key per class. What is said goes to the outbox; the next row is shown at once.

import { ask, byId, make, tell } from "./common.js";
import { Outbox } from "./label_outbox.js";
import { Questions } from "./label_questions.js";
import { listen, showDownloads, showGuesses, showProgress, showTraining } from "./label_side.js";
import { Views } from "./label_views.js";
import { Wall } from "./label_wall.js";

const SOON = 6, LAST = 8, REMEMBERED = 500;
const SAID = { skip: "skipped", unsure: "can’t say" };

const questions = new Questions();
const past = []; // what was said here: { id, question, word }
let state = null, since = 0, onlyChecks = false, drawn = false, answered = false, views, wall, outbox;

// --- what people say --------------------------------------------------------------------------------------

function say(kind, label) {
  const question = questions.take({ skip: kind === "skip" });
  if (!question) return;
  remember(outbox.say({ do: kind, row: question.row, ...(label === undefined ? {} : { label }), check: question.check }), question, label ?? SAID[kind]);
}

function sayOf(row, label) {
  questions.done.add(row);
  questions.list = questions.list.filter((question) => question.row !== row);
  remember(outbox.say({ do: "label", row, label }), { row, check: false }, label);
}

function remember(id, question, word) {
  past.push({ id, question, word });
  if (past.length > REMEMBERED) past.shift();
  byId("spoken").textContent = word;
  draw();
}

function undo() {
  const last = past.pop();
  if (!last) return;
  outbox.say({ do: "undo", of: last.id });
  if (!onWall()) questions.putFirst(last.question);
  else questions.done.delete(last.question.row);
  byId("spoken").textContent = `${last.word} taken back`;
  if (onWall()) wall.load();
  draw();
}

function choose(name) {
  if (onWall()) {
    if (!wall.give(name)) tell("Select rows first: click them, or move to one by Tab and the arrow keys.");
    else tell("");
  } else say("label", name);
}

const onWall = () => document.querySelector("input[name=view]:checked").value === "wall";

// --- keys -------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=radio]), select, textarea, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing || !state) return;
  const button = event.target.closest("button, a, summary, input");
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const named = state.classes.find((each) => each.key && each.key === key);
  if (named) choose(named.name);
  else if (key === "?") byId("unsure").click();
  else if (key === "Backspace") byId("undo").click();
  else if (key === " " && !button) byId("skip").click();
  else if (key === "Enter" && !button) openDialog();
  else if (/^[a-z0-9]$/.test(key)) openDialog(key);
  else return;
  event.preventDefault();
});

function openDialog(start = "") {
  byId("name").value = start;
  byId("dialog").showModal();
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const names = byId("name").value.split(",").map((name) => name.trim()).filter(Boolean);
  byId("dialog").close();
  if (names.length === 1 && (!onWall() || wall.chosen.length)) choose(names[0]);
  else for (const name of names) outbox.say({ do: "class", label: name });
});

byId("dialog-close").addEventListener("click", () => byId("dialog").close());
byId("new").addEventListener("click", () => openDialog());
byId("skip").addEventListener("click", () => onWall() || say("skip"));
byId("unsure").addEventListener("click", () => onWall() || say("unsure"));
byId("undo").addEventListener("click", undo);
byId("keys").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.drop) outbox.say({ do: "drop", label: button.dataset.drop });
  else choose(button.dataset.name);
  if (event.detail) button.blur(); // after a mouse, Space is again the key to skip
});
for (const name of ["new", "skip", "unsure", "undo"]) byId(name).addEventListener("click", (event) => event.detail && event.currentTarget.blur());
byId("checks").addEventListener("click", () => {
  onlyChecks = !onlyChecks;
  if (!onlyChecks) questions.list = questions.list.slice(0, 1);
  outbox.send();
  draw();
});
byId("views").addEventListener("change", () => {
  byId("ask").hidden = onWall();
  byId("wall").hidden = !onWall();
  document.body.classList.toggle("on-wall", onWall());
  document.activeElement.blur();
  if (onWall()) wall.load();
  draw();
});

function openWall(name) {
  byId("wall-class").value = name;
  const view = document.querySelector("input[value=wall]");
  view.checked = true;
  view.dispatchEvent(new Event("change", { bubbles: true }));
}

// --- what the server says ---------------------------------------------------------------------------------

function heard({ answers, lines, questions: newest, state: now }) {
  for (const line of lines) {
    since = line.v;
    if (line.row !== undefined && line.who !== outbox.who) questions.heard(line.row, line.kind !== "none");
  }
  const refused = answers.find((answer) => answer.refused);
  if (refused) tell(refused.refused);
  questions.update(newest, { onlyThese: onlyChecks });
  answered = true;
  show(now);
}

function show(now) {
  state = now;
  draw();
}

// --- what is seen -----------------------------------------------------------------------------------------

/** Draw once before the next frame, however many keys were pressed. */
function draw() {
  if (drawn || !state) return;
  drawn = true;
  requestAnimationFrame(() => {
    drawn = false;
    drawRow();
    drawClasses();
    drawSaved();
    drawLast();
    showProgress(state, onlyChecks);
    showGuesses(state, openWall);
    showTraining(state);
    showDownloads(state);
    wall.list(state);
    wall.offer(state);
  });
}

function drawRow() {
  const question = questions.current, place = byId("row");
  for (const soon of questions.list.slice(0, SOON)) views.of(soon.row);
  if (!question) {
    place.replaceChildren(make("p", { class: "nothing" }, answered ? "Every row is answered." : "…"));
    delete place.dataset.row;
    byId("what").textContent = "";
    return;
  }
  const element = views.of(question.row);
  if (place.firstChild !== element) place.replaceChildren(element);
  place.dataset.row = question.row;
  const first = state.classes.length ? "" : " Press a key, or Enter, to name its class.";
  byId("what").textContent = `Row ${question.row}${question.check ? ", a random one: it tells how good the guesses are" : ""}.${first}`;
}

function drawClasses() {
  const shown = JSON.stringify(state.classes);
  if (byId("keys").dataset.shown === shown) return;
  byId("keys").dataset.shown = shown;
  const sorted = [...state.classes].sort((a, b) => (a.key || "~").localeCompare(b.key || "~", "en"));
  byId("keys").replaceChildren(...sorted.map(({ name, key, n }) => {
    const button = make("button", { type: "button", class: "key" });
    button.dataset.name = name;
    if (key) button.append(make("kbd", {}, key));
    if (key !== name) button.append(make("span", { class: "key-name" }, name));
    button.append(make("span", { class: "key-n" }, n.toLocaleString("en")));
    button.setAttribute("aria-label", `${name}${key ? `, key ${key}` : ""}, ${n} labeled`);
    if (n || state.guessed[name]) return button;
    const drop = make("button", { type: "button", class: "drop", "aria-label": `Remove the class ${name}`, title: "Remove this class" }, "×");
    drop.dataset.drop = name;
    return make("span", { class: "pair" }, button, drop);
  }));
}

function drawSaved() {
  const waiting = outbox.pending.length, place = byId("saved");
  place.classList.toggle("lost", Boolean(outbox.trouble));
  place.dataset.waiting = waiting;
  place.textContent = outbox.trouble
    ? `${outbox.trouble} ${waiting ? `${waiting} of your answers wait here and are sent again.` : ""}`
    : waiting > 5 ? `Saving ${waiting} …` : "All saved";
  if (state.trouble && !outbox.trouble) place.textContent += ` · ${state.trouble}`;
}

function drawLast() {
  const last = past.slice(-LAST).reverse(), key = last.map((each) => each.id).join();
  byId("recent").hidden = !last.length || onWall();
  if (byId("last").dataset.shown === key) return;
  byId("last").dataset.shown = key;
  byId("last").replaceChildren(...last.map(({ question, word }) => {
    const button = make("button", { type: "button", class: "tile" }, views.small(question.row, ""), make("span", { class: "word" }, word));
    button.setAttribute("aria-label", `row ${question.row}, ${word}; ask again`);
    button.addEventListener("click", () => {
      questions.putFirst({ ...question, check: false });
      button.blur();
      draw();
    });
    return make("li", {}, button);
  }));
}

// --- the start --------------------------------------------------------------------------------------------

try {
  const about = await ask("/api/label");
  byId("about").textContent = `${about.name} · ${about.state.rows.toLocaleString("en")} ${about.images ? "images" : "rows"}`;
  byId("place").textContent = about.labels;
  document.title = `${about.name} – Label – mmdgm`;
  views = new Views(about.images);
  document.body.classList.toggle("of-tables", !about.images);
  wall = new Wall(views, sayOf);
  since = about.state.version;
  outbox = new Outbox({ more: () => ({ since, want: questions.want, checks: onlyChecks }), heard, changed: draw });
  for (const event of outbox.pending) if (event.row !== undefined) questions.done.add(event.row);
  listen(show);
  show(about.state);
  if (about.notes.length) console.info(about.notes.join("\n"));
  outbox.send();
} catch (error) {
  tell(error.message);
}

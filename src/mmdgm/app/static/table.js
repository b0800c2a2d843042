// Play with a table: a row as a form, whose empty cells are filled.
import { ask, byId, make, newest, tell } from "./common.js";
import { showScores } from "./scores.js";

const SHARE = 0.35; // of the cells that "Empty some cells" empties

export function startTable(about) {
  for (const id of ["row", "prediction"]) byId(id).hidden = false;
  document.querySelector(".columns").classList.add("table");
  byId("row-example").hidden = !about.examples;
  byId("whiskers").textContent = "The thin line holds nine tenths of the draws of the missing cells.";
  const cells = about.columns.map((column, i) => makeCell(column, i));
  byId("cells").replaceChildren(...cells.map((cell) => cell.element));

  const look = newest(async () => {
    const wrong = cells.find((cell) => !cell.input.validity.valid);
    if (wrong) throw new Error(`${wrong.column.name}: this is no number`);
    const answer = await ask("/api/look", { row: cells.map(read) });
    tell("");
    showScores(about.classes, answer);
    cells.forEach((cell, i) => showFill(cell, answer.filled[i]));
  });
  const take = (row) => {
    row.forEach((value, i) => (cells[i].input.value = value === null ? "" : value));
    look();
  };
  byId("cells").addEventListener("input", () => look());
  byId("row-typical").addEventListener("click", () => take(about.typical));
  byId("row-example").addEventListener("click", () => ask("/api/example", {}).then(({ row }) => take(row)).catch((error) => tell(error.message)));
  byId("row-holes").addEventListener("click", () => {
    const full = cells.filter((cell) => cell.input.value !== "");
    const emptied = full.filter(() => Math.random() < SHARE);
    for (const cell of emptied.length ? emptied : full.slice(0, 1)) cell.input.value = "";
    look();
  });
  if (about.examples) byId("row-example").click();
  else take(about.typical);
}

function read({ input }) {
  return input.value === "" ? null : Number(input.value);
}

function makeCell(column, i) {
  const id = `cell-${i}`, about = `fill-${i}`;
  let input;
  if (column.kind === "number") {
    input = make("input", { id, type: "number", step: "any", placeholder: "missing", autocomplete: "off", "aria-describedby": about });
  } else {
    const options = column.values.map((name, k) => make("option", { value: k }, name));
    input = make("select", { id, "aria-describedby": about }, make("option", { value: "" }, "– missing –"), ...options);
  }
  const fill = make("div", { id: about, class: "fill" });
  return { column, input, fill, element: make("div", { class: "cell" }, make("label", { for: id }, column.name), input, fill) };
}

/** Show what a cell is filled with: the mean and the interval of draws, or the likely values. */
function showFill({ column, fill, element }, filled) {
  element.classList.toggle("missing", Boolean(filled));
  if (!filled) {
    fill.replaceChildren();
    return;
  }
  if (column.kind !== "number") {
    const likely = filled.likely.map(([cell, share]) => `${column.values[cell]} ${Math.round(100 * share)} %`);
    fill.replaceChildren("filled: ", make("b", {}, column.values[filled.cell]), ` (draws: ${likely.join(", ")})`);
    return;
  }
  const short = (value) => String(Number(value.toPrecision(4)));
  fill.replaceChildren("filled: ", make("b", {}, short(filled.cell)), ` (90 % of draws: ${short(filled.low)} to ${short(filled.high)})`);
  const [least, most] = column.ends ?? [filled.low, filled.high];
  const part = (value) => Math.min(Math.max((100 * (value - least)) / (most - least || 1), 0), 100);
  const band = make("span", { class: "band" }), tick = make("span", { class: "tick" });
  band.style.left = `${part(filled.low)}%`;
  band.style.width = `${Math.max(part(filled.high) - part(filled.low), 1)}%`;
  tick.style.left = `${part(filled.cell)}%`;
  fill.append(make("div", { class: "range", "aria-hidden": "true" }, band, tick));
}

// The wall: rows of a class, the least sure first. Several can be selected; a class's key or button labels them.

import { ask, byId, make, newest, tell } from "./common.js";

const PAGE = 60;

export class Wall {
  constructor(views, label) {
    Object.assign(this, { views, label, start: 0, shown: "" });
    this.grid = byId("tiles");
    this.load = newest(() => this.fetch(0));
    this.grid.addEventListener("click", (event) => this.toggle(event.target.closest(".tile")));
    this.grid.addEventListener("keydown", (event) => this.move(event));
    byId("more").addEventListener("click", () => this.fetch(this.start).catch((error) => tell(error.message)));
    byId("refresh").addEventListener("click", () => this.load());
    byId("wall-class").addEventListener("change", () => this.load());
    byId("wall-kind").addEventListener("change", () => this.load());
  }

  get name() {
    return byId("wall-class").value;
  }

  get kind() {
    return document.querySelector("input[name=kind]:checked").value;
  }

  /** The rows that a class would be given to: the selected ones, or the one with the focus. */
  get chosen() {
    const selected = [...this.grid.querySelectorAll("[aria-pressed=true]")];
    const focused = document.activeElement?.closest?.(".tile");
    return selected.length ? selected : focused && this.grid.contains(focused) ? [focused] : [];
  }

  /** Offer newer guesses than those that are shown: the tiles do not move by themselves. */
  offer(state) {
    this.newest = state.source + state.guesses_of;
    this.seen ??= this.newest;
    byId("refresh").hidden = this.seen === this.newest || this.kind === "labeled";
  }

  /** List the classes, with the number of rows of each; the chosen one stays. */
  list(state) {
    const select = byId("wall-class"), chosen = select.value;
    const names = [...new Set([...state.classes.map((each) => each.name), ...Object.keys(state.guessed)])];
    const options = names.map((name) => make("option", { value: name }, `${name} (${state.guessed[name] ?? 0})`));
    if (state.new) options.push(make("option", { value: "" }, `perhaps new (${state.new})`));
    if (options.map((option) => option.textContent).join("\n") === [...select.options].map((option) => option.textContent).join("\n")) return;
    select.replaceChildren(...options);
    const kept = options.find((option) => option.value === chosen) ?? options[0];
    if (kept) kept.selected = true;
  }

  async fetch(start) {
    const asked = new URLSearchParams({ class: this.name, start, n: PAGE });
    if (this.kind === "labeled") asked.set("labeled", "1");
    const { tiles, total } = await ask(`/api/label/wall?${asked}`);
    if (!start) {
      this.grid.replaceChildren();
      this.seen = this.newest;
      byId("refresh").hidden = true;
    }
    const there = new Set([...this.grid.children].map((tile) => Number(tile.dataset.row)));
    this.grid.append(...tiles.filter((tile) => !there.has(tile.row)).map((tile) => this.tile(tile)));
    this.start = start + tiles.length;
    byId("more").hidden = this.start >= total;
    const kind = this.kind === "labeled" ? "labeled" : "guessed, least sure first";
    byId("wall-note").textContent = total ? `${total.toLocaleString("en")} rows ${kind}` : `no row is ${this.kind}`;
    this.tabStop(this.grid.querySelector("[tabindex='0']") ?? this.grid.firstChild);
  }

  tile({ row, name, guess, label }) {
    const word = make("span", { class: "word" }, label ?? guess ?? "");
    const button = make("button", { type: "button", class: "tile", tabindex: "-1", "aria-pressed": "false" });
    button.dataset.row = row;
    button.append(this.views.small(row, ""), word);
    button.setAttribute("aria-label", `${name}, ${label ? "labeled" : "guessed"} ${label ?? guess ?? "nothing"}`);
    return button;
  }

  toggle(tile) {
    if (!tile) return;
    tile.setAttribute("aria-pressed", tile.getAttribute("aria-pressed") !== "true");
    this.tabStop(tile);
  }

  tabStop(tile) {
    for (const other of this.grid.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    if (tile) tile.tabIndex = 0;
  }

  /** Move the focus by the arrow keys. */
  move(event) {
    const tiles = [...this.grid.children], at = tiles.indexOf(document.activeElement);
    if (at < 0) return;
    const columns = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const next = event.key === "Home" ? tiles[0] : event.key === "End" ? tiles.at(-1) : step && tiles[at + step];
    if (!next) return;
    event.preventDefault();
    this.tabStop(next);
    next.focus();
  }

  /** Give the chosen rows a class; returns whether there were any. */
  give(name) {
    const chosen = this.chosen;
    for (const tile of chosen) {
      this.label(Number(tile.dataset.row), name);
      tile.setAttribute("aria-pressed", "false");
      tile.classList.add("said");
      tile.querySelector(".word").textContent = name;
      tile.setAttribute("aria-label", `${tile.getAttribute("aria-label").split(",")[0]}, labeled ${name}`);
    }
    const next = chosen.at(-1)?.nextElementSibling;
    if (chosen.length === 1 && next && document.activeElement === chosen[0]) {
      this.tabStop(next);
      next.focus();
    }
    return chosen.length > 0;
  }
}

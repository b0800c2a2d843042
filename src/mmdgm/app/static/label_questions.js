// The rows that this browser asks about: the first is shown. The newest order of the server counts for those after it.

const PLENTY = 600, FEW = 60, MANY = 1200; // rows: enough for a long time without an answer; asked for; asked for first

export class Questions {
  constructor() {
    this.list = [];
    this.done = new Set(); // rows that were answered here, or by others
    this.skipped = new Set(); // rows that come again when there are no others
  }

  get current() {
    return this.list[0] ?? null;
  }

  /** How many rows to ask the server for. */
  get want() {
    return this.list.length < PLENTY ? MANY : FEW;
  }

  /** Take the shown row away and return it. */
  take({ skip = false } = {}) {
    const question = this.list.shift() ?? null;
    if (question) (skip ? this.skipped : this.done).add(question.row);
    return question;
  }

  /** Show a row now. */
  putFirst(question) {
    this.done.delete(question.row);
    this.skipped.delete(question.row);
    this.list = [question, ...this.list.filter((other) => other.row !== question.row)];
  }

  /** Others have answered this row, or taken their answer back. */
  heard(row, said) {
    if (said) {
      this.done.add(row);
      this.list = this.list.filter((question, place) => place === 0 || question.row !== row);
    } else {
      this.done.delete(row);
    }
  }

  /** Take the server's newest order; the shown row stays. */
  update(newest, { onlyThese = false } = {}) {
    const shown = this.current && !(onlyThese && !this.current.check) ? [this.current] : [];
    const seen = new Set(shown.map((question) => question.row)), list = [...shown];
    for (const question of onlyThese ? newest : [...newest, ...this.list]) {
      if (seen.has(question.row) || this.done.has(question.row)) continue;
      if (this.skipped.has(question.row) && !question.again) continue;
      seen.add(question.row);
      list.push(question);
    }
    this.list = list;
  }
}

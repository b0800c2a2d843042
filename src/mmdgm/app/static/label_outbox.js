// What this browser said and the server has not yet acknowledged: sent in order, again and again, until it is kept.

import { ask } from "./common.js";

const MOST = 200; // events in one request
const AGAIN = 1000; // milliseconds between questions for news, and after a failure
const PENDING = "mmdgm-label-pending", WHO = "mmdgm-label-who";

const id = () => crypto.randomUUID();

/** Events wait in the tab's storage, so that loading the page again loses none. */
export class Outbox {
  /** `more`: a function that returns what else a request says; `heard`: is given each answer. */
  constructor({ more, heard, changed }) {
    Object.assign(this, { more, heard, changed });
    this.who = sessionStorage.getItem(WHO) ?? id();
    sessionStorage.setItem(WHO, this.who);
    this.pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "[]");
    this.trouble = "";
    this.busy = false;
    this.timer = 0;
  }

  /** Say something about a row; returns the event's id. */
  say(event) {
    const whole = { id: id(), ...event };
    this.pending.push(whole);
    this.keep();
    this.send();
    return whole.id;
  }

  keep() {
    sessionStorage.setItem(PENDING, JSON.stringify(this.pending));
    this.changed();
  }

  /** Send what waits, or ask for news; one request at a time. */
  async send() {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    const events = this.pending.slice(0, MOST);
    try {
      const answer = await ask("/api/label/events", { who: this.who, events, ...this.more() });
      this.trouble = "";
      this.pending.splice(0, events.length);
      this.keep();
      this.heard(answer);
    } catch (error) {
      this.trouble = error.message;
      this.changed();
    }
    this.busy = false;
    if (this.pending.length && !this.trouble) this.send();
    else this.timer = setTimeout(() => this.send(), AGAIN);
  }
}

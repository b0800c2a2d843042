// What all pages share: elements, requests to the server, and the line for what went wrong.

export const byId = (id) => document.getElementById(id);

/** Return a new element. Texts among the children stay texts: nothing is parsed as HTML. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Show one line in the element #message (role=alert); an empty one hides it. */
export function tell(line) {
  const message = byId("message");
  message.textContent = line;
  message.hidden = !line;
}

let asking = 0; // questions without an answer yet; base.css shows them by the pointer

/** Ask the server: GET without a body, POST with one (bytes as they are, other values as JSON). Fails with its line. */
export async function ask(path, body, { signal } = {}) {
  const raw = body instanceof Blob || body instanceof ArrayBuffer || ArrayBuffer.isView(body);
  const options = body === undefined ? { signal } : {
    method: "POST",
    signal,
    body: raw ? body : JSON.stringify(body),
    headers: { "Content-Type": raw ? "application/octet-stream" : "application/json" },
  };
  document.body.dataset.asking = ++asking;
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is `mmdgm app` still running?");
  } finally {
    document.body.dataset.asking = --asking;
  }
  if (response.ok) return JSON.parse(text);
  try {
    throw new Error(JSON.parse(text).error);
  } catch (error) {
    throw error instanceof SyntaxError ? new Error(text.trim() || `the server answers ${response.status}`) : error;
  }
}

/** Return a function that calls `work` with the newest arguments: one call at a time, those in between are left out. */
export function newest(work) {
  let running = false, next = null;
  return async (...args) => {
    next = args;
    if (running) return;
    running = true;
    try {
      while (next) {
        const now = next;
        next = null;
        try {
          await work(...now);
        } catch (error) {
          tell(error.message);
        }
      }
    } finally {
      running = false;
    }
  };
}

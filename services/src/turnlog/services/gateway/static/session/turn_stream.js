// The stream of one turn. The browser reconnects with the id of the last event, so no text is missed or
// repeated, and each text is only appended. A newly opened stream starts from the beginning, and so does
// the text.

import { createElement } from "../app/dom.js";
import { openEventSource } from "../app/event_source.js";
import { buildSessionPath } from "../app/http_client.js";

const PROGRESS_TEXTS = { plan: "plans …", act: "takes a step …", summarise: "summarises …" };
const END_EVENTS = ["done", "redact", "failed", "cancelled"];

export function watchTurn(session, turn, onText) {
  const text = document.createTextNode("");
  const progress = createElement("span", { class: "faint" });
  const element = createElement("div", { class: "bubble reply live" }, text, progress, createElement("span", { class: "caret" }));
  const clearText = () => { text.data = ""; };
  const source = openEventSource(() => {
    clearText();
    return buildSessionPath(session, "turns", turn, "stream");
  }, {
    token: (event) => {
      text.appendData(JSON.parse(event.data).text);
      progress.textContent = "";
      onText();
    },
    progress: (event) => {
      const update = JSON.parse(event.data);
      progress.textContent = update.tool ? `${update.tool} …` : PROGRESS_TEXTS[update.doing] ?? "";
    },
    "attempt-reset": clearText,
    ...Object.fromEntries(END_EVENTS.map((end) => [end, () => source.close()])),
  });
  return { element, close: source.close };
}

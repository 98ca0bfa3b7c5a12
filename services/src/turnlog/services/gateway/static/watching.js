// The stream of one turn. The browser reconnects with the id of the last event, so no text is missed or
// repeated, and each text is only appended. A newly opened stream starts from the beginning, and so does
// the text.

import { make } from "/page/dom.js";
import { ofSession } from "/page/http.js";
import { stream } from "/page/streams.js";

const DOING = { plan: "plans …", act: "takes a step …", summarise: "sums up …" };
const ENDS = ["done", "redact", "failed", "cancelled"];

export function watch(session, turn, grown) {
  const text = document.createTextNode("");
  const doing = make("span", { class: "faint" });
  const element = make("div", { class: "bubble reply live" }, text, doing, make("span", { class: "caret" }));
  const begin = () => { text.data = ""; };
  const tokens = stream(() => {
    begin();
    return ofSession(session, "turns", turn, "stream");
  }, {
    token: (event) => {
      text.appendData(JSON.parse(event.data).text);
      doing.textContent = "";
      grown();
    },
    progress: (event) => {
      const told = JSON.parse(event.data);
      doing.textContent = told.tool ? `${told.tool} …` : DOING[told.doing] ?? "";
    },
    "attempt-reset": begin,
    ...Object.fromEntries(ENDS.map((end) => [end, () => tokens.close()])),
  });
  return { element, close: tokens.close };
}

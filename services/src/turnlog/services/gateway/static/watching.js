// The stream of one turn. The browser reconnects by itself with the last id it got, and gets what
// it missed and nothing twice; so all there is to do is to add what comes. Asked anew, the stream
// begins at the beginning, and so does the text.

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

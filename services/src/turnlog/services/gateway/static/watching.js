// The stream of one turn. The browser reconnects by itself with the last id it got, and gets what
// it missed and nothing twice; so all there is to do is to add what comes.

import { make } from "/page/dom.js";
import { ofSession } from "/page/http.js";

const ENDS = ["done", "redact", "failed", "cancelled"];

export function watch(session, turn, grown) {
  const text = document.createTextNode("");
  const element = make("div", { class: "bubble reply live" }, text, make("span", { class: "caret" }));
  const source = new EventSource(ofSession(session, "turns", turn, "stream"));
  source.addEventListener("token", (event) => {
    text.appendData(JSON.parse(event.data).text);
    grown();
  });
  source.addEventListener("attempt-reset", () => { text.data = ""; });
  for (const end of ENDS) source.addEventListener(end, () => source.close());
  return { element, close: () => source.close() };
}

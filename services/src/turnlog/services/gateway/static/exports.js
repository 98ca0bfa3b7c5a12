// The exports of a session, with one download link for each format.

import { make } from "/page/dom.js";
import { ofSession } from "/page/http.js";

const FORMS = [
  ["bundle", "bundle", "events, texts and a verifier, for a third party"],
  ["ndjson", "events", "the stored lines, as they are"],
  ["chat", "transcript", "what was said, for people"],
  ["parquet", "table", "events as columns"],
];

export function exports(session) {
  const form = ([format, name, what]) => make("li", {}, exportOf(session, format, [name, make("small", {}, what)]));
  return make("details", { class: "exports" }, make("summary", {}, "export"), make("ul", {}, FORMS.map(form)));
}

export function exportOf(session, format, name) {
  return make("a", { href: `${ofSession(session, "export")}?format=${format}`, download: true }, name);
}

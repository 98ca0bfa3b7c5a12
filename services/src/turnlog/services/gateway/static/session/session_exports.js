// The exports of a session, with one download link for each format.

import { createElement } from "../app/dom.js";
import { buildSessionPath } from "../app/http_client.js";
import { mayDo } from "../app/permissions.js";

const FORMATS = [
  ["bundle", "bundle", "events, texts and a verifier, for a third party"],
  ["ndjson", "events", "the stored events; withheld replies are replaced"],
  ["chat", "transcript", "a transcript for reading"],
  ["parquet", "table", "events as columns"],
];

export function renderExports(session) {
  const renderFormat = ([format, name, description]) => createElement("li", {}, renderExportLink(session, format, [name, createElement("small", {}, description)]));
  return createElement("details", { class: "exports" }, createElement("summary", {}, "export"), createElement("ul", {}, FORMATS.filter(([format]) => format !== "bundle" || mayDo("withheld:read")).map(renderFormat)));
}

export function renderExportLink(session, format, name) {
  return createElement("a", { href: `${buildSessionPath(session, "export")}?format=${format}`, download: true }, name);
}

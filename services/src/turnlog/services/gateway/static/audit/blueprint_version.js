// The blueprint version of a session, other sessions with the same version, and the present files. A move
// goes only to the version that is shown here.

import { createElement, setChildren } from "../app/dom.js";
import { formatCount, formatDigest, formatNumber } from "../app/formatting.js";
import { buildSessionPath, createKeyedSender, describeProblem, fetchJson } from "../app/http_client.js";
import { linkToBlueprint, linkToSessions } from "../app/links.js";

const VERDICT_TEXTS = { true: ["good", "the same"], false: ["wary", "otherwise"], null: ["faint", "it depends"] };

export function createVersionView(session) {
  const element = createElement("div", { class: "audit scroll version" });
  const message = createElement("p", { role: "status" });
  const sendKeyed = createKeyedSender();
  let shown = null;
  let requests = 0;

  function showVersion(facts) {
    const wanted = `${facts.digest} ${facts.closed}`;
    if (wanted === shown) return;
    if (!shown) setChildren(element, createElement("p", { class: "faint" }, "looking …"));
    shown = wanted;
    refresh(facts);
  }

  async function refresh(facts) {
    const request = (requests += 1);
    try {
      // Pins are counted in the read models, which lag behind the log.
      await fetchJson("/v1/sessions", { min_sequence: `${session}:${facts.sequence}`, limit: 1 });
      const [{ pins }, blueprint] = await Promise.all([fetchJson("/v1/pins", { blueprint: facts.blueprint }), fetchBlueprint(facts.blueprint)]);
      if (request === requests) setChildren(element, renderVersion(facts, pins, blueprint));
    } catch (problem) {
      if (request === requests) setChildren(element, createElement("p", { class: "fault" }, problem.message));
    }
  }

  function renderVersion(facts, pins, blueprint) {
    const isOutdated = !blueprint.problem && (blueprint.digest !== facts.digest || pins.some((pin) => pin.current === false));
    return [
      createElement("dl", { class: "facts" },
        createElement("dt", {}, "this session"), createElement("dd", {}, `${facts.blueprint} v${facts.version} `, renderDigest(facts.digest)),
        createElement("dt", {}, "the files"), createElement("dd", {}, blueprint.problem
          ? createElement("span", { class: "fault" }, blueprint.problem)
          : [`${facts.blueprint} v${blueprint.version} `, renderDigest(blueprint.digest), renderVerdict(blueprint.digest === facts.digest)])),
      createElement("p", { class: "faint" }, "A session uses the version it was opened with, even if the files change. Only a move switches it to another version: ",
        "it is recorded as an event between turns, and earlier prompts do not change."),
      facts.closed || !isOutdated ? null : createElement("p", {}, createElement("button", { type: "button", on: { click: () => moveSession(facts, blueprint.digest) } }, `Move to the files, v${blueprint.version}`)),
      message,
      createElement("h2", {}, "versions of ", createElement("a", { href: linkToBlueprint(facts.blueprint) }, facts.blueprint), " that open sessions are pinned to"),
      pins.length ? renderPins(pins, facts) : createElement("p", { class: "faint" }, "it has no open session"),
    ];
  }

  async function moveSession(facts, wanted) {
    setChildren(message, "moving …");
    try {
      const result = await sendKeyed("POST", buildSessionPath(session, "blueprint"), { digest: wanted });
      refresh({ ...facts, sequence: result.sequence, version: result.version, digest: result.digest });
      setChildren(message, result.moved ? `✓ uses v${result.version} from its next call on, event ${result.sequence}` : "it already uses these files");
      message.className = "verdict good";
    } catch (problem) {
      setChildren(message, describeProblem(problem));
      message.className = "fault";
    }
  }

  return { element, show: showVersion };
}

// Sessions can use a blueprint whose folder is missing or faulty.
const fetchBlueprint = (blueprint) => fetchJson(`/v1/blueprints/${encodeURIComponent(blueprint)}`).catch((problem) => ({ problem: problem.message }));

const renderDigest = (value) => createElement("code", { class: "faint", title: value }, formatDigest(value));

export function renderVerdict(current) {
  const [kind, text] = VERDICT_TEXTS[current];
  return createElement("span", { class: kind }, ` ${text}`);
}

function renderPins(pins, facts) {
  const columns = ["pinned", "digest", "open sessions", "files say"];
  return createElement("table", { class: "plain" }, createElement("thead", {}, createElement("tr", {}, columns.map((name) => createElement("th", {}, name)))),
    createElement("tbody", {}, pins.map((pin) => createElement("tr", {},
      createElement("td", {}, formatPin(pin), pin.digest === facts.digest ? createElement("span", { class: "badge" }, "this session") : null),
      createElement("td", {}, renderDigest(pin.digest)),
      createElement("td", { class: "number" }, createElement("a", { href: linkToSessions({ digest: pin.digest, open: "true" }), title: formatCount(pin.sessions, "session") }, formatNumber(pin.sessions))),
      createElement("td", {}, renderVerdict(pin.current))))));
}

function formatPin(pin) {
  if (pin.what === "blueprint") return `version ${pin.version} `;
  if (!pin.layer) return pin.what === "memory" ? "memory policy" : pin.what;
  return [`prompt ${pin.layer} `, createElement("span", { class: "faint" }, `${pin.path ?? ""} for ${pin.provider ?? ""}`)];
}

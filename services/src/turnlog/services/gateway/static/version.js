// The blueprint version of a session, other sessions with the same version, and the present files. A move
// goes only to the version that is shown here.

import { to } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { get, ofSession, post } from "/page/http.js";
import { counted, figure, short } from "/page/words.js";

const SAY = { true: ["good", "the same"], false: ["wary", "otherwise"], null: ["faint", "it depends"] };

export function versionPane(session) {
  const element = make("div", { class: "audit scroll version" });
  const said = make("p");
  let shown = null;
  let looking = 0;

  function showFor(facts) {
    const wanted = `${facts.digest} ${facts.closed}`;
    if (wanted === shown) return;
    if (!shown) show(element, make("p", { class: "faint" }, "looking …"));
    shown = wanted;
    look(facts);
  }

  async function look(facts) {
    const mine = (looking += 1);
    try {
      // Pins are counted in the read models, which lag behind the log.
      await get("/v1/sessions", { min_sequence: `${session}:${facts.sequence}`, limit: 1 });
      const [{ pins }, files] = await Promise.all([get("/v1/pins", { blueprint: facts.blueprint }), filesOf(facts.blueprint)]);
      if (mine === looking) show(element, draw(facts, pins, files));
    } catch (problem) {
      if (mine === looking) show(element, make("p", { class: "fault" }, problem.message));
    }
  }

  function draw(facts, pins, files) {
    const stale = !files.problem && (files.digest !== facts.digest || pins.some((pin) => pin.current === false));
    return [
      make("dl", { class: "facts" },
        make("dt", {}, "this session"), make("dd", {}, `${facts.blueprint} v${facts.version} `, digest(facts.digest)),
        make("dt", {}, "the files"), make("dd", {}, files.problem
          ? make("span", { class: "fault" }, files.problem)
          : [`${facts.blueprint} v${files.version} `, digest(files.digest), verdict(files.digest === facts.digest)])),
      make("p", { class: "faint" }, "A session runs by what it was opened by, whatever becomes of the files. It goes on by another version only when it is moved: ",
        "by an event, between turns, and no earlier prompt changes."),
      facts.closed || !stale ? null : make("p", {}, make("button", { type: "button", on: { click: () => move(facts, files.digest) } }, `Go on by the files, v${files.version}`)),
      said,
      make("h2", {}, `what open sessions of ${facts.blueprint} are pinned to`),
      pins.length ? table(pins, facts) : make("p", { class: "faint" }, "no session of it is open"),
    ];
  }

  async function move(facts, wanted) {
    show(said, "moving …");
    try {
      const done = await post(ofSession(session, "blueprint"), { digest: wanted });
      look({ ...facts, sequence: done.sequence, version: done.version, digest: done.digest });
      show(said, done.moved ? `✓ goes on by v${done.version} from its next call on, event ${done.sequence}` : "it runs by these very files already");
      said.className = "verdict good";
    } catch (problem) {
      show(said, [problem.message, problem.fix].filter(Boolean).join(" · "));
      said.className = "fault";
    }
  }

  return { element, show: showFor };
}

// Sessions can use a blueprint whose folder is missing or faulty.
const filesOf = (blueprint) => get(`/v1/blueprints/${encodeURIComponent(blueprint)}`).catch((problem) => ({ problem: problem.message }));

const digest = (value) => make("code", { class: "faint", title: value }, short(value));

function verdict(current) {
  const [kind, words] = SAY[current];
  return make("span", { class: kind }, ` ${words}`);
}

function table(pins, facts) {
  const heads = ["pinned", "digest", "open sessions", "files say"];
  return make("table", { class: "plain" }, make("thead", {}, make("tr", {}, heads.map((name) => make("th", {}, name)))),
    make("tbody", {}, pins.map((pin) => make("tr", {},
      make("td", {}, what(pin), pin.digest === facts.digest ? make("span", { class: "badge" }, "this session") : null),
      make("td", {}, digest(pin.digest)),
      make("td", { class: "number" }, make("a", { href: to([], { digest: pin.digest, open: "true" }), title: counted(pin.sessions, "session") }, figure(pin.sessions))),
      make("td", {}, verdict(pin.current))))));
}

function what(pin) {
  if (pin.what === "blueprint") return `version ${pin.version} `;
  if (!pin.layer) return pin.what === "memory" ? "memory policy" : pin.what;
  return [`prompt ${pin.layer} `, make("span", { class: "faint" }, `${pin.path ?? ""} for ${pin.provider ?? ""}`)];
}

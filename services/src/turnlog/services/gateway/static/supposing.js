// The what-if view: recorded calls under another budget, model or blueprint. The change is part of the
// address, so that users can share it, except for a blueprint folder.

import { toCall, toSession, toWhatIf } from "/page/address.js";
import { brought } from "/page/folder.js";
import { make, show } from "/page/dom.js";
import { lines } from "/page/http.js";
import { counted, figure, money, short } from "/page/words.js";

const HOW = { cut: ["bad", "cut"], uncut: ["good", "no longer cut"], gone: ["wary", "gone"], added: ["good", "added"], changed: ["wary", "changed"] };
const SHOWN = 20;

export function supposingPane(session) {
  const budget = make("input", { type: "number", min: 1, placeholder: "as it is", "aria-label": "budget" });
  const model = make("input", { placeholder: "as it is", "aria-label": "model", spellcheck: "false" });
  const folder = make("input", { type: "file", webkitdirectory: true, hidden: true, on: { change: chosen } });
  const pick = make("button", { class: "quiet", type: "button", on: { click: () => folder.click() } });
  const all = make("input", { type: "checkbox" });
  const form = make("form", { class: "pick", on: { submit: submitted } },
    make("label", {}, "budget ", budget), make("label", {}, "model ", model), folder, pick,
    make("label", {}, all, " all sessions"), make("button", { type: "submit" }, "Suppose"));
  const body = make("div", { class: "scroll" });
  const element = make("div", { class: "audit difference" }, form, body);
  let shown = null;
  let asking = 0;

  function chosen() {
    show(pick, folder.files.length ? `blueprint ${folder.files[0].webkitRelativePath.split("/")[0]}` : "blueprint as it is");
  }

  function submitted(event) {
    event.preventDefault();
    shown = toWhatIf(session, { budget: budget.value, model: model.value.trim(), all: all.checked ? "yes" : "" });
    location.hash = shown;
    suppose();
  }

  function showFor(query) {
    const wanted = toWhatIf(session, Object.fromEntries(query));
    if (wanted === shown) return;
    [budget.value, model.value, all.checked] = [query.get("budget") ?? "", query.get("model") ?? "", query.has("all")];
    shown = wanted;
    suppose();
  }

  async function suppose() {
    const asked = { budget: Number(budget.value) || null, model: model.value.trim() || null };
    if (!asked.budget && !asked.model && !folder.files.length) {
      show(body, make("p", { class: "faint" }, "Name another budget or model, or choose the folder of another version of the blueprint: ",
        "every recorded call is put together again under it. No model is asked, and nothing is written."));
      return;
    }
    const mine = (asking += 1);
    show(body, make("p", { class: "faint" }, "supposing …"));
    try {
      const blueprint = folder.files.length ? await brought(folder.files) : null;
      const told = await answered({ ...asked, blueprint, sessions: all.checked ? null : [session] });
      if (mine === asking) show(body, draw(told));
    } catch (problem) {
      if (mine === asking) show(body, make("p", { class: "fault" }, [problem.message, problem.fix].filter(Boolean).join(" · ")));
    }
    body.scrollTop = 0;
  }

  chosen();
  return { element, show: showFor };
}

async function answered(form) {
  const told = { session: [], untold: [] };
  for await (const line of lines("/v1/what-if", form)) {
    if (told[line.line]) told[line.line].push(line);
    else told[line.line] = line;
  }
  // Sorts the worst session first; the first differing figure decides.
  const worse = (one, two) => { const at = one.badness.findIndex((each, place) => each !== two.badness[place]); return at < 0 ? 0 : two.badness[at] - one.badness[at]; };
  told.session.sort(worse);
  return told;
}

function draw({ begun, session: sessions, untold, ended }) {
  const [only] = sessions;
  return [
    make("p", { class: "verdict" }, `what if ${supposed(begun)}`),
    sums(ended),
    section("calls that could not have been made", ended.refused.map((each) =>
      make("p", {}, make("span", { class: "fault" }, counted(each.calls, "call")), ` ${each.code}: ${each.detail}`))),
    section("what would stand otherwise", ended.altered.length ? [altered(ended.altered)] : []),
    sessions.length > 1 ? section("sessions, the worst first", sessions.slice(0, SHOWN).map(told)) : null,
    sessions.length === 1 ? section("calls, the worst first", only.worst.slice(0, SHOWN).map((each) => call(each, only.session))) : null,
    untold.map((each) => make("p", { class: "fault" }, `${each.session}: ${each.detail}`)),
    begun.behind ? make("p", { class: "faint" }, `the read models lack ${counted(begun.behind, "event")}, and perhaps a session`) : null,
    make("p", { class: "exact" }, begun.exact),
  ];
}

function supposed({ blueprint, budget, model }) {
  return [
    blueprint ? `${blueprint.blueprint} v${blueprint.version} ${short(blueprint.digest)}` : null,
    budget ? `a budget of ${counted(budget, "token")}` : null,
    model ? `model ${model}` : null,
  ].filter(Boolean).join(" · ");
}

function sums({ calls, again, same, before, after }) {
  const row = (name, ...what) => [make("dt", {}, name), make("dd", {}, ...what)];
  const way = (one, two, spell = figure) => (one === two ? `${spell(two)}, as it was` : `${spell(one)} → ${spell(two)}`);
  const measure = before.counters.join() === after.counters.join() || !again ? null
    : make("span", { class: "wary" }, ` counted by ${before.counters.join(", ")}, then by ${after.counters.join(", ")}: not of one measure`);
  const guess = before.guessed || after.guessed ? make("span", { class: "faint" }, " at a guess: a model stands in no price table") : null;
  return make("dl", { class: "facts" },
    row("could be made", make("span", { class: again === calls ? "good" : "bad" }, `${figure(again)} of ${counted(calls, "call")}`),
      make("span", { class: "faint" }, same ? ` · ${figure(same)} the very same` : "")),
    row("tokens", way(before.tokens, after.tokens), measure),
    row("largest", way(before.largest, after.largest)),
    row("cache reuses", way(before.prefix, after.prefix)),
    row("prompts cost", way(before.micro_dollars, after.micro_dollars, money), guess));
}

const section = (title, rows) => (rows.length ? make("section", {}, make("h2", {}, title), rows) : null);

function altered(rows) {
  const heads = ["layer", "how", "by", "calls", "pieces"];
  return make("table", { class: "plain" }, make("thead", {}, make("tr", {}, heads.map((name) => make("th", {}, name)))),
    make("tbody", {}, rows.map((each) => make("tr", {}, make("td", {}, each.layer), make("td", { class: HOW[each.how][0] }, HOW[each.how][1]),
      make("td", {}, each.rule ?? ""), make("td", { class: "number" }, figure(each.calls)), make("td", { class: "number" }, figure(each.pieces))))));
}

function told(session) {
  const lost = session.calls - session.again;
  return make("p", {}, make("a", { href: toSession(session.session) }, session.session),
    ` ${figure(session.before.tokens)} → ${counted(session.after.tokens, "token")}`, lost ? make("span", { class: "fault" }, ` · ${figure(lost)} not made`) : null);
}

function call({ call: name, before, after, altered: pieces, refused }, session) {
  const size = after ? `${figure(before.tokens)} → ${counted(after.tokens, "token")}` : `${counted(before.tokens, "token")}, not made`;
  return make("article", { class: "origin" },
    make("h3", {}, make("a", { href: toCall(session, name) }, `call ${name}`), make("span", { class: "faint" }, ` · ${size}`)),
    refused ? make("p", { class: "fault" }, `${refused.code}: ${refused.detail}`) : null,
    pieces.map((each) => make("p", {}, `${piece(each)} `, make("span", { class: HOW[each.how][0] }, HOW[each.how][1]), each.rule ? ` by ${each.rule}` : "")));
}

function piece({ layer, first, last, segment }) {
  if (segment !== null) return `${layer} segment ${segment}`;
  if (first === null) return layer;
  return first === last ? `turn ${first}` : `turns ${first} to ${last}`;
}

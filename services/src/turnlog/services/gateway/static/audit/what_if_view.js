// The what-if view: recorded calls under another budget, model or blueprint. The change is part of the
// address, so that users can share it, except for a blueprint folder.

import { createElement, setChildren } from "../app/dom.js";
import { formatCount, formatDigest, formatMoney, formatNumber, formatPercent } from "../app/formatting.js";
import { streamLines } from "../app/http_client.js";
import { linkToCall, linkToSession, linkToWhatIf } from "../app/links.js";
import { readBlueprintFolder } from "./blueprint_upload.js";
import { renderComparedStrips } from "./compared_strips.js";

const CHANGE_TEXTS = { cut: ["bad", "cut"], uncut: ["good", "no longer cut"], gone: ["wary", "gone"], added: ["good", "added"], changed: ["wary", "changed"] };
const MAX_ROWS = 20;

export function createWhatIfView(session) {
  const budget = createElement("input", { type: "number", min: 1, placeholder: "as it is", "aria-label": "budget" });
  const model = createElement("input", { placeholder: "as it is", "aria-label": "model", spellcheck: "false" });
  const cut = createElement("input", { type: "number", min: 1, max: 99, placeholder: "as it is", "aria-label": "cut to percent" });
  const folder = createElement("input", { type: "file", webkitdirectory: true, hidden: true, on: { change: showFolder } });
  const pick = createElement("button", { class: "quiet", type: "button", on: { click: () => folder.click() } });
  const all = createElement("input", { type: "checkbox" });
  const form = createElement("form", { class: "pick", on: { submit: submitChange } },
    createElement("label", {}, "budget ", budget), createElement("label", {}, "model ", model),
    createElement("label", {}, "full prompts are cut to % ", cut), folder, pick,
    createElement("label", {}, all, " all sessions"), createElement("button", { type: "submit" }, "Suppose"));
  const body = createElement("div", { class: "scroll" });
  const element = createElement("div", { class: "audit difference" }, form, body);
  let shown = null;
  let requests = 0;

  function showFolder() {
    setChildren(pick, folder.files.length ? `blueprint ${folder.files[0].webkitRelativePath.split("/")[0]}` : "blueprint as it is");
  }

  function submitChange(event) {
    event.preventDefault();
    shown = linkToWhatIf(session, { budget: budget.value, model: model.value.trim(), to: cut.value, all: all.checked ? "yes" : "" });
    location.hash = shown;
    runWhatIf();
  }

  function showQuery(query) {
    const wanted = linkToWhatIf(session, Object.fromEntries(query));
    if (wanted === shown) return;
    [budget.value, model.value, cut.value, all.checked] = [query.get("budget") ?? "", query.get("model") ?? "", query.get("to") ?? "", query.has("all")];
    shown = wanted;
    runWhatIf();
  }

  async function runWhatIf() {
    const ladder = cut.value ? { drop_oldest_pairs: { to: `${Number(cut.value)}%` } } : null;
    const change = { budget: Number(budget.value) || null, model: model.value.trim() || null, ladder };
    if (!change.budget && !change.model && !ladder && !folder.files.length) {
      setChildren(body, createElement("p", { class: "faint" }, "Name another budget or model, cut full prompts further so that caches last, or choose the folder of another version of the blueprint: ",
        "every recorded call is assembled again with it. No model is called, and nothing is written."));
      return;
    }
    const request = (requests += 1);
    setChildren(body, createElement("p", { class: "faint" }, "supposing …"));
    try {
      const blueprint = folder.files.length ? await readBlueprintFolder(folder.files) : null;
      const report = await fetchReport({ ...change, blueprint, sessions: all.checked ? null : [session] });
      if (request === requests) setChildren(body, renderReport(report));
    } catch (problem) {
      if (request === requests) setChildren(body, createElement("p", { class: "fault" }, [problem.message, problem.fix].filter(Boolean).join(" · ")));
    }
    body.scrollTop = 0;
  }

  showFolder();
  return { element, show: showQuery };
}

async function fetchReport(form) {
  const report = { session: [], untold: [] };
  for await (const line of streamLines("/v1/what-if", form)) {
    if (report[line.line]) report[line.line].push(line);
    else report[line.line] = line;
  }
  // Sorts the worst session first; the first differing figure decides.
  const compareSessions = (one, two) => { const at = one.badness.findIndex((each, place) => each !== two.badness[place]); return at < 0 ? 0 : two.badness[at] - one.badness[at]; };
  report.session.sort(compareSessions);
  return report;
}

function renderReport({ begun, session: sessions, untold, ended }) {
  const [only] = sessions;
  return [
    createElement("p", { class: "verdict" }, `what if ${formatChange(begun)}`),
    renderTotals(ended),
    only?.compared.length ? renderComparedStrips(only) : null,
    renderSection("calls that would have failed", ended.refused.map((each) =>
      createElement("p", {}, createElement("span", { class: "fault" }, formatCount(each.calls, "call")), ` ${each.code}: ${each.detail}`))),
    renderSection("what would change", ended.altered.length ? [renderChangedParts(ended.altered)] : []),
    sessions.length > 1 ? renderSection("sessions, the worst first", sessions.slice(0, MAX_ROWS).map(renderSession)) : null,
    sessions.length === 1 ? renderSection("calls, the worst first", only.worst.slice(0, MAX_ROWS).map((each) => renderCall(each, only.session))) : null,
    untold.map((each) => createElement("p", { class: "fault" }, `${each.session}: ${each.detail}`)),
    begun.behind ? createElement("p", { class: "faint" }, `the read models lack ${formatCount(begun.behind, "event")}, and perhaps a session`) : null,
    createElement("p", { class: "exact" }, begun.exact),
  ];
}

function formatChange({ blueprint, budget, model, ladder }) {
  return [
    blueprint ? `${blueprint.blueprint} v${blueprint.version} ${formatDigest(blueprint.digest)}` : null,
    budget ? `a budget of ${formatCount(budget, "token")}` : null,
    model ? `model ${model}` : null,
    ...Object.entries(ladder ?? {}).flatMap(([step, settings]) => Object.entries(settings).map(([name, value]) => `${step} ${name} ${value}`)),
  ].filter(Boolean).join(" · ");
}

function renderTotals({ calls, again, same, before, after }) {
  const row = (name, ...what) => [createElement("dt", {}, name), createElement("dd", {}, ...what)];
  const formatChangeOf = (one, two, format = formatNumber) => (one === two ? `${format(two)}, as it was` : `${format(one)} → ${format(two)}`);
  const measure = before.counters.join() === after.counters.join() || !again ? null
    : createElement("span", { class: "wary" }, ` counted by ${before.counters.join(", ")}, then by ${after.counters.join(", ")}: not of one measure`);
  const cost = (side) => formatMoney(side.micro_dollars, side.guessed);
  const cachedCost = (side) => formatMoney(side.cached_micro_dollars, side.guessed);
  return createElement("dl", { class: "facts" },
    row("could be made", createElement("span", { class: again === calls ? "good" : "bad" }, `${formatNumber(again)} of ${formatCount(calls, "call")}`),
      createElement("span", { class: "faint" }, same ? ` · ${formatNumber(same)} identical` : "")),
    row("tokens", formatChangeOf(before.tokens, after.tokens), measure),
    row("largest", formatChangeOf(before.largest, after.largest)),
    row("cache reuses", formatChangeOf(before.prefix, after.prefix)),
    row("prompts cost", formatChangeOf(cost(before), cost(after), String)),
    before.cached_tokens || after.cached_tokens ? row("with caches", formatChangeOf(cachedCost(before), cachedCost(after), String), formatShare(before, after),
      createElement("span", { class: "faint" }, " if nothing expires")) : null,
    before.lost_tokens || after.lost_tokens ? row("caches lose", formatChangeOf(formatCount(before.lost_tokens, "token"), formatCount(after.lost_tokens, "token"), String)) : null);
}

function formatShare({ cached_micro_dollars: before }, { cached_micro_dollars: after }) {
  if (!before || before === after) return null;
  return createElement("span", { class: after < before ? "good" : "wary" }, ` ${after < before ? "−" : "+"}${formatPercent(Math.abs(after - before) / before)}`);
}

const renderSection = (title, rows) => (rows.length ? createElement("section", {}, createElement("h2", {}, title), rows) : null);

function renderChangedParts(rows) {
  const heads = ["layer", "how", "by", "calls", "pieces"];
  return createElement("table", { class: "plain" }, createElement("thead", {}, createElement("tr", {}, heads.map((name) => createElement("th", {}, name)))),
    createElement("tbody", {}, rows.map((each) => createElement("tr", {}, createElement("td", {}, each.layer), createElement("td", { class: CHANGE_TEXTS[each.how][0] }, CHANGE_TEXTS[each.how][1]),
      createElement("td", {}, each.rule ?? ""), createElement("td", { class: "number" }, formatNumber(each.calls)), createElement("td", { class: "number" }, formatNumber(each.pieces))))));
}

function renderSession(session) {
  const failed = session.calls - session.again;
  return createElement("p", {}, createElement("a", { href: linkToSession(session.session) }, session.session),
    ` ${formatNumber(session.before.tokens)} → ${formatCount(session.after.tokens, "token")}`, failed ? createElement("span", { class: "fault" }, ` · ${formatNumber(failed)} not made`) : null);
}

function renderCall({ call: name, before, after, altered: pieces, refused }, session) {
  const size = after ? `${formatNumber(before.tokens)} → ${formatCount(after.tokens, "token")}` : `${formatCount(before.tokens, "token")}, not made`;
  return createElement("article", { class: "origin" },
    createElement("h3", {}, createElement("a", { href: linkToCall(session, name) }, `call ${name}`), createElement("span", { class: "faint" }, ` · ${size}`)),
    refused ? createElement("p", { class: "fault" }, `${refused.code}: ${refused.detail}`) : null,
    pieces.map((each) => createElement("p", {}, `${formatPart(each)} `, createElement("span", { class: CHANGE_TEXTS[each.how][0] }, CHANGE_TEXTS[each.how][1]), each.rule ? ` by ${each.rule}` : "")));
}

function formatPart({ layer, first, last, segment }) {
  if (segment !== null) return `${layer} segment ${segment}`;
  if (first === null) return layer;
  return first === last ? `turn ${first}` : `turns ${first} to ${last}`;
}

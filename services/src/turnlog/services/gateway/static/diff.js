// The differences between two calls: what was added, removed or changed, and which event caused it.

import { toDiff } from "/page/address.js";
import { causes, turns } from "/page/causes.js";
import { make, show } from "/page/dom.js";
import { get, ofSession } from "/page/http.js";
import { sourceOf } from "/page/passages.js";
import { counted, figure, money } from "/page/words.js";

const SIGNS = { added: "+", removed: "−", changed: "~", shrunk: "▾", grown: "▴", moved: "⇄" };
const WORDS = {
  said: "the turn that asks", answered: "answered", failed: "it failed", cancelled: "given up", excluded: "excluded",
  restored: "restored", redacted: "a reply was withheld", told: "told once, by then", choice: "a choice", phase: "the phase",
  attribute: "an attribute", resolved: "what was resolved", pinned: "the prompt file", library: "the library",
  variant: "the variant it drew", blueprint: "the blueprint", budget: "the budget", room: "what took the room",
  limit: "later turns", time: "too old by the clock of", kind: "the kind of call", profile: "the profile", model: "the model",
  assembler: "the assembler", summarised: "summed up", undone: "a summary was undone", purged: "the memory was purged",
  unknown: "no event says why",
};

export function diffPane(session) {
  const body = make("div", { class: "scroll" });
  const pick = make("form", { class: "pick" });
  const element = make("div", { class: "audit difference" }, pick, body);
  let shown = null;

  async function showCalls(before, after, other, calls) {
    drawPick(before, after, other, calls);
    const wanted = `${before} ${after} ${other ?? ""}`;
    if (wanted === shown) return;
    shown = wanted;
    show(body, make("p", { class: "faint" }, "comparing …"));
    try {
      const found = await get(ofSession(session, "calls", before, "diff", after), { other: other || null });
      if (wanted === shown) show(body, draw(found));
    } catch (problem) {
      if (wanted === shown) show(body, make("p", { class: "fault" }, problem.message));
    }
    body.scrollTop = 0;
  }

  function drawPick(before, after, other, calls) {
    const choose = (chosen, label) => make("select", { "aria-label": label, on: { change: go } },
      calls.map(({ call }) => make("option", { value: call, selected: call === chosen }, `call ${call}`)));
    const first = choose(before, "from");
    const second = other
      ? make("input", { "aria-label": "to", value: after, size: 6, on: { change: go } })
      : choose(after, "to");
    const elsewhere = make("input", { "aria-label": "of session", placeholder: "of another session", value: other ?? "", on: { change: go } });
    function go() {
      location.hash = toDiff(session, first.value, second.value, elsewhere.value.trim());
    }
    pick.onsubmit = (event) => { event.preventDefault(); go(); };
    show(pick, "from ", first, " to ", second, elsewhere);
  }

  function draw(found) {
    return [summary(found), found.changes.map((change, place) => changed(change, place === found.prefix.change, session)), components(found), prefix(found)];
  }

  return { element, show: showCalls };
}

const signed = (number, thing) => `${number > 0 ? "+" : number ? "−" : "±"}${counted(Math.abs(number), thing)}`;

function summary({ before, after, same, tokens, micro_dollars: cost }) {
  const side = (facts) => `${facts.kind} · ${facts.model} · ${counted(facts.tokens, "token")}${facts.budget ? ` of ${figure(facts.budget)}` : ""} · ${money(facts.micro_dollars)}`;
  const paid = cost === null ? "" : cost ? ` · ${cost > 0 ? "+" : "−"}${money(Math.abs(cost))}` : " · at the same cost";
  return make("div", { class: "proof" },
    make("div", {}, make("strong", {}, `− ${before.call}`), make("span", { class: "faint" }, ` ${side(before)}`)),
    make("div", {}, make("strong", {}, `+ ${after.call}`), make("span", { class: "faint" }, ` ${side(after)}`)),
    make("div", { class: "verdict sum" }, same ? "the very same request" : signed(tokens, "token") + paid));
}

function changed(change, ends, session) {
  const place = change.first ? turns(change.first, change.last) : sourceOf((change.after ?? change.before)?.source);
  const rule = change.rule ? ` · ${change.after?.rule === change.rule || change.what !== "added" ? "by" : "before:"} ${change.rule}` : "";
  const size = change.tokens === null ? signed(change.characters, "character") : signed(change.tokens, "token");
  return make("article", { class: `origin change ${change.what}` },
    make("h3", {}, make("span", { class: "sign" }, SIGNS[change.what]), make("span", { class: "layer" }, change.layer),
      change.item ? ` ${change.item}` : "", make("span", { class: "faint" }, ` ${change.what} · ${place}${rule}`),
      make("span", { class: "size faint" }, size)),
    change.because.map((each) => make("p", {}, WORDS[each.what] ?? each.what, each.by.length ? ": " : "", causes(each.by, session))),
    ends ? make("p", { class: "ends" }, "here the common prefix ends") : null);
}

function components({ components: shares }) {
  const most = Math.max(1, ...shares.flatMap((share) => [share.before, share.after]));
  const bar = (tokens) => {
    const fill = make("i");
    fill.style.width = `${(tokens / most) * 100}%`;
    return make("td", { class: "bar" }, fill);
  };
  return make("table", { class: "components" }, make("tbody", {}, shares.map((share) => make("tr", {},
    make("td", {}, share.component), make("td", { class: "number" }, figure(share.before)), bar(share.before),
    make("td", { class: "number" }, figure(share.after)), bar(share.after),
    make("td", { class: "number faint" }, share.after === share.before ? "" : signed(share.after - share.before, "token"))))));
}

function prefix({ before, prefix: shared }) {
  const ended = shared.ended_by ? ` · up to ${shared.ended_by}` : " · all of it";
  return make("p", { class: "faint" }, `begins as call ${before.call} did: ${counted(shared.messages, "message")}, ${counted(shared.tokens, "token")}${ended}`);
}

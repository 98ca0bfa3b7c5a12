// How the context of a session grows: one bar for each call, by component, scaled to the largest call,
// with the savings of each rule.

import { toCall } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { get } from "/page/http.js";
import { counted, figure, percent } from "/page/words.js";

const HUES = 7;

export function growthPane(session) {
  const element = make("div", { class: "audit scroll" });
  let told = null;

  // The read models lag behind the log, so the request asks for rows up to the last known event.
  async function showAt(calls) {
    const sequence = calls.at(-1)?.sequence ?? null;
    if (told === sequence && element.firstChild) return;
    told = sequence;
    try {
      const found = await get("/v1/growth", { session, min_sequence: sequence });
      if (told === sequence) show(element, draw(found, session));
    } catch (problem) {
      told = null;
      show(element, make("p", { class: "fault" }, problem.message));
    }
  }

  return { element, show: showAt };
}

function draw({ calls, groups: [whole], history_growth: rate }, session) {
  if (!whole) return make("p", { class: "faint" }, "no call was made yet");
  const taken = Object.entries(whole.components).filter(([, tokens]) => tokens);
  const hues = Object.fromEntries(taken.map(([name], place) => [name, `hue-${place % HUES}`]));
  const most = Math.max(...calls.map((call) => call.tokens), 1);
  const sum = taken.reduce((all, [, tokens]) => all + tokens, 0);
  return make("section", { class: "ledger" },
    make("h2", {}, counted(whole.calls, "call"), make("span", { class: "faint" }, summary(whole, rate))),
    make("ul", { class: "legend" }, taken.map(([name, tokens]) => make("li", { class: hues[name] }, make("b", {}),
      plain(name), make("span", { class: "faint" }, ` ${figure(tokens)} · ${percent(tokens / sum)}`)))),
    make("table", { class: "plain" }, make("tbody", {}, calls.map((call) => row(call, session, hues, most)))));
}

function summary({ tokens, savings_estimate: saved, cut_turns: cut }, rate) {
  const told = [saved ? `${figure(saved)} tokens saved, ${percent(saved / (tokens + saved))}` : null,
    cut ? `${counted(cut, "turn")} cut` : null,
    rate === null ? null : `history grows by ${figure(rate)} tokens a turn`];
  return told.filter(Boolean).map((each) => ` · ${each}`).join("");
}

function row(call, session, hues, most) {
  const strip = make("div", { class: "strip" }, Object.entries(call.components).filter(([, tokens]) => tokens)
    .map(([name, tokens]) => piece(name, tokens, hues)));
  strip.style.width = percent(call.tokens / most);
  const saved = Object.entries(call.saved).map(([rule, tokens]) => `${figure(tokens)} by ${rule}`).join(", ");
  return make("tr", {}, make("td", {}, make("a", { href: toCall(session, call.call) }, call.call)),
    make("td", {}, call.kind), make("td", { class: "right" }, figure(call.tokens)),
    make("td", { class: "bar" }, strip), make("td", { class: "faint" }, saved));
}

function piece(name, tokens, hues) {
  const made = make("i", { class: hues[name], title: `${plain(name)}: ${counted(tokens, "token")}` });
  made.style.flexGrow = tokens;
  return made;
}

const plain = (name) => name.replace(/_tokens$/, "");

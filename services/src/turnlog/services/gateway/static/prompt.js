// The exact prompt of a call: each layer in its hue, its tokens, what was left out and by which rule,
// and whether the prompt was reproduced as recorded.

import { toCall, toEvent } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { get, ofSession } from "/page/http.js";
import { byComponent, colours, leftOut, offered, passages, sourceOf } from "/page/passages.js";
import { counted, figure, percent } from "/page/words.js";

export function promptPane(session) {
  const growth = make("nav", { class: "growth", "aria-label": "Calls" });
  const body = make("div", { class: "scroll" });
  const element = make("div", { class: "prompt" }, growth, body);
  const held = new Map();
  let shown = null;

  async function showCall(call, calls) {
    drawGrowth(call, calls);
    if (call === shown) return;
    shown = call;
    show(body, make("p", { class: "faint" }, "reading back …"));
    try {
      if (!held.has(call)) held.set(call, await get(ofSession(session, "calls", call, "prompt")));
      if (call === shown) show(body, draw(held.get(call)));
    } catch (problem) {
      if (call === shown) show(body, make("p", { class: "fault" }, problem.message));
    }
    body.scrollTop = 0;
  }

  // Context growth: one column for each call, relative to the largest call.
  function drawGrowth(current, calls) {
    const most = Math.max(1, ...calls.map((call) => call.tokens));
    show(growth, calls.map((call) => {
      const fill = make("i");
      fill.style.height = `${Math.max(6, (call.tokens / most) * 100)}%`;
      return make("a", {
        href: toCall(session, call.call), "aria-current": call.call === current ? "true" : null,
        title: `call ${call.call} · ${figure(call.tokens)} tokens`,
      }, make("b", {}, fill), make("span", {}, call.call));
    }));
    growth.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function draw(prompt) {
    const { manifest } = prompt;
    const hues = colours(manifest);
    return [
      proof(prompt, session), bar(manifest, hues), cut(manifest, hues), texts(prompt.messages, manifest, hues),
      tools(prompt, hues), parameters(prompt),
    ];
  }

  return { element, show: showCall };
}

function proof(prompt, session) {
  const verdict = prompt.verified ? "✓ reads back from the log, byte for byte" : `✗ ${prompt.fault.where}: ${prompt.fault.detail}`;
  return make("div", { class: "proof" },
    make("div", {}, make("strong", {}, `call ${prompt.call}`), ` · ${prompt.manifest.kind} · ${prompt.model} · `,
      make("a", { href: toEvent(session, prompt.sequence) }, `event ${prompt.sequence}`)),
    make("div", { class: prompt.verified ? "verdict good" : "verdict bad" }, verdict),
    make("code", { class: "digest", title: "SHA-256 of the request as it was handed over" }, prompt.digest));
}

function bar(manifest, hues) {
  const shares = byComponent(manifest);
  const whole = Math.max(manifest.tokens, 1);
  const strip = make("div", { class: "strip" }, shares.map((share) => {
    const piece = make("i", { class: hues[share.layer], title: `${share.component}: ${counted(share.tokens, "token")}` });
    piece.style.flexGrow = share.tokens;
    return piece;
  }));
  const legend = make("ul", { class: "legend" }, shares.map((share) => make("li", { class: hues[share.layer] },
    make("b", {}), share.component, make("span", { class: "faint" }, ` ${figure(share.tokens)} · ${percent(share.tokens / whole)}`))));
  const budget = manifest.budget ? ` of ${figure(manifest.budget)} · ${percent(manifest.tokens / manifest.budget)}` : "";
  const counter = `counted by ${manifest.counter.name}${manifest.counter.exact ? "" : ", an estimate"}`;
  return make("section", { class: "tokens" },
    make("h2", {}, counted(manifest.tokens, "token"), make("span", { class: "faint" }, `${budget} · ${counter}`)), strip, legend);
}

function texts(messages, manifest, hues) {
  const found = passages(messages, manifest);
  return messages.map((message, place) => make("section", { class: "message" },
    make("h3", {}, String(place + 1), make("span", { class: "role" }, message.role)),
    // The source is shown once for each part, because one range of history spans many messages.
    found[place].map(({ part, text }) => passage(part, text, hues, place === part.message))));
}

function passage(part, text, hues, first) {
  const origin = first ? [make("span", { title: part.source?.of?.join(", ") }, sourceOf(part.source)), make("span", {}, counted(part.tokens, "token"))] : null;
  return make("div", { class: `passage ${hues[part.layer]}` },
    make("div", { class: "margin" }, make("strong", {}, part.layer), origin), make("div", { class: "text" }, text));
}

function tools(prompt, hues) {
  if (!prompt.tools.length) return null;
  const parts = offered(prompt.manifest);
  return make("section", { class: "message" }, make("h3", {}, "beside", make("span", { class: "role" }, "tools")),
    prompt.tools.map((tool, place) => passage(parts[place], JSON.stringify(tool, null, 2), hues, true)));
}

function cut(manifest, hues) {
  const parts = leftOut(manifest);
  if (!parts.length) return null;
  return make("section", { class: "cut" }, make("h2", {}, "left out or shortened"),
    make("table", {}, make("tbody", {}, parts.map((part) => make("tr", {},
      make("td", {}, make("span", { class: `layer ${hues[part.layer]}` }, part.layer)),
      make("td", {}, part.treatment),
      make("td", {}, part.rule ?? ""),
      make("td", { class: "faint" }, part.source ? sourceOf(part.source) : ""))))));
}

function parameters(prompt) {
  if (!Object.keys(prompt.parameters).length) return null;
  return make("section", { class: "settings" }, make("h2", {}, "parameters"), make("pre", {}, JSON.stringify(prompt.parameters, null, 2)));
}

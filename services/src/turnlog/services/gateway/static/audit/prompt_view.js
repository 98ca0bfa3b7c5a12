// The exact prompt of a call: each layer in its hue, its tokens, what was left out and by which rule,
// and whether the prompt was reproduced as recorded.

import { createElement, setChildren } from "../app/dom.js";
import { renderFigures } from "../app/figures.js";
import { renderFoldedText } from "../app/folding.js";
import { formatCount, formatNumber, formatPercent } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToCall, linkToEvent, linkToUses } from "../app/links.js";
import { scrollIntoSight } from "../app/quiet_scrolling.js";
import { makeFocusRove } from "../app/roving_focus.js";
import { renderCallAnswer } from "../turn/call_answer.js";
import { chooseLayerHues, describeOutputRequest, formatSource, listShortenedParts, listToolParts, nameUsedSource, splitMessages, sumByComponent } from "./prompt_parts.js";
import { renderRetrievals } from "./retrieval_view.js";

// `loadTurn` returns a turn of the session with its events; the answer of a call is taken from them.
export function createPromptView(session, loadTurn) {
  const callChart = createElement("nav", { class: "growth", "aria-label": "Calls" });
  const promptPane = createElement("div", { class: "prompt-pane" });
  const answerPane = createElement("div", { class: "answer-pane" });
  const element = createElement("div", { class: "prompt" }, callChart, createElement("div", { class: "prompt-and-answer" }, promptPane, answerPane));
  makeFocusRove(callChart, "a", { horizontal: true });
  const prompts = new Map();
  let shown = null;

  async function showCall(call, calls) {
    drawCallChart(call, calls);
    const isNew = call !== shown;
    shown = call;
    await Promise.all([isNew ? showPrompt(call) : null, showAnswer(call, calls, isNew)]);
  }

  async function showPrompt(call) {
    setChildren(promptPane, createElement("p", { class: "faint" }, "reading back …"));
    try {
      if (!prompts.has(call)) prompts.set(call, await fetchJson(buildSessionPath(session, "calls", call, "prompt")));
      if (call === shown) setChildren(promptPane, renderPrompt(prompts.get(call)));
    } catch (problem) {
      if (call === shown) setChildren(promptPane, createElement("p", { class: "fault" }, problem.message));
    }
    promptPane.scrollTop = 0;
  }

  async function showAnswer(name, calls, isNew) {
    const call = calls.find((each) => each.call === name);
    if (isNew) setChildren(answerPane);
    if (!call) return;
    try {
      const { turn, events } = await loadTurn(call.turn);
      if (name === shown) setChildren(answerPane, renderCallAnswer(session, call, turn, events), renderRetrievals(session, name, events));
    } catch (problem) {
      if (name === shown) setChildren(answerPane, createElement("p", { class: "fault" }, problem.message));
    }
    if (isNew) answerPane.scrollTop = 0;
  }

  // Context growth: one column for each call, relative to the largest call.
  function drawCallChart(current, calls) {
    const largest = Math.max(1, ...calls.map((call) => call.tokens));
    setChildren(callChart, calls.map((call) => {
      const fill = createElement("i");
      fill.style.height = `${Math.max(6, (call.tokens / largest) * 100)}%`;
      return createElement("a", {
        href: linkToCall(session, call.call), "aria-current": call.call === current ? "true" : null,
        title: `call ${call.call} · ${formatNumber(call.tokens)} tokens`,
      }, createElement("b", {}, fill), createElement("span", {}, call.call));
    }));
    const marked = callChart.querySelector("[aria-current]");
    if (marked) scrollIntoSight(marked);
  }

  function renderPrompt(prompt) {
    const { manifest } = prompt;
    const hues = chooseLayerHues(manifest);
    const key = `${session} prompt ${prompt.call}`;
    return [
      renderReproduction(prompt, session), createElement("button", { type: "button", class: "quiet to-answer", on: { click: () => answerPane.scrollIntoView() } }, "what it answered ↓"), renderTokenBar(manifest, hues), renderShortenedParts(manifest, hues), renderMessages(session, key, prompt.messages, manifest, hues),
      renderTools(session, key, prompt, hues), renderResponseFormat(session, key, prompt, hues), renderParameters(prompt),
    ];
  }

  return { element, show: showCall };
}

function renderReproduction(prompt, session) {
  const verdict = prompt.verified ? "✓ reads back from the log, byte for byte" : `✗ ${prompt.fault.where}: ${prompt.fault.detail}`;
  return createElement("div", { class: "proof" },
    createElement("div", {}, createElement("strong", {}, `call ${prompt.call}`), ` · ${prompt.manifest.kind} · ${prompt.model} · `,
      createElement("a", { href: linkToEvent(session, prompt.sequence) }, `event ${prompt.sequence}`)),
    createElement("div", { class: prompt.verified ? "verdict good" : "verdict bad" }, verdict),
    createElement("code", { class: "digest", title: "SHA-256 of the request as it was sent" }, prompt.digest));
}

function renderTokenBar(manifest, hues) {
  const shares = sumByComponent(manifest);
  const totalTokens = Math.max(manifest.tokens, 1);
  const strip = createElement("div", { class: "strip" }, shares.map((share) => {
    const piece = createElement("i", { class: hues[share.layer], title: `${share.component}: ${formatCount(share.tokens, "token")}` });
    piece.style.flexGrow = share.tokens;
    return piece;
  }));
  const legend = createElement("ul", { class: "legend" }, shares.map((share) => createElement("li", { class: hues[share.layer] },
    createElement("b", {}), share.component, createElement("span", { class: "faint" }, ` ${formatNumber(share.tokens)} · ${formatPercent(share.tokens / totalTokens)}`))));
  const budget = manifest.budget ? [`of ${formatNumber(manifest.budget)}`, formatPercent(manifest.tokens / manifest.budget)] : [];
  const factor = (manifest.counter.factor ?? 1) > 1 ? ` times ${manifest.counter.factor}` : "";
  const counter = `counted by ${manifest.counter.name}${factor}${manifest.counter.exact ? "" : ", an estimate"}`;
  return createElement("section", { class: "tokens" },
    createElement("h2", {}, formatCount(manifest.tokens, "token"), " ", renderFigures([...budget, counter], { class: "faint" })), strip, legend);
}

function renderMessages(session, key, messages, manifest, hues) {
  const passages = splitMessages(messages, manifest);
  return messages.map((message, place) => createElement("section", { class: "message" },
    createElement("h3", {}, String(place + 1), createElement("span", { class: "role" }, message.role)),
    // The source is shown once for each part, because one range of history spans many messages.
    passages[place].map(({ part, text }, at) => renderPassage(session, `${key} message ${place} ${at}`, part, text, hues, place === part.message))));
}

function renderPassage(session, key, part, text, hues, first) {
  const origin = first ? [createElement("span", { title: part.source?.of?.join(", ") }, `${formatSource(part.source)}${describeOutputRequest(part)}`), createElement("span", {}, formatCount(part.tokens, "token")), renderUsesLink(session, part.source)] : null;
  return createElement("div", { class: `passage ${hues[part.layer]}` },
    createElement("div", { class: "margin" }, createElement("strong", {}, part.layer), origin), renderFoldedText(key, text, { class: "text" }));
}

function renderUsesLink(session, source) {
  const name = nameUsedSource(session, source);
  return name ? createElement("a", { href: linkToUses(name), title: `which calls and replies had ${name} in their prompt` }, "uses") : null;
}

function renderTools(session, key, prompt, hues) {
  if (!prompt.tools.length) return null;
  const parts = listToolParts(prompt.manifest);
  return createElement("section", { class: "message" }, createElement("h3", {}, "beside", createElement("span", { class: "role" }, "tools")),
    prompt.tools.map((tool, place) => renderPassage(session, `${key} tool ${place}`, parts[place], JSON.stringify(tool, null, 2), hues, true)));
}

function renderResponseFormat(session, key, prompt, hues) {
  const part = prompt.manifest.parts.find(({ role }) => role === "response_format");
  if (!part) return null;
  return createElement("section", { class: "message" }, createElement("h3", {}, "beside", createElement("span", { class: "role" }, "response_format")),
    renderPassage(session, `${key} response_format`, part, JSON.stringify(JSON.parse(part.source.text), null, 2), hues, true));
}

function renderShortenedParts(manifest, hues) {
  const parts = listShortenedParts(manifest);
  if (!parts.length) return null;
  return createElement("section", { class: "cut" }, createElement("h2", {}, "left out or shortened"),
    createElement("table", {}, createElement("tbody", {}, parts.map((part) => createElement("tr", {},
      createElement("td", {}, createElement("span", { class: `layer ${hues[part.layer]}` }, part.layer)),
      createElement("td", {}, part.treatment),
      createElement("td", {}, part.rule ?? ""),
      createElement("td", { class: "faint" }, part.source ? formatSource(part.source) : ""))))));
}

function renderParameters(prompt) {
  if (!Object.keys(prompt.parameters).length) return null;
  return createElement("section", { class: "settings" }, createElement("h2", {}, "parameters"), createElement("pre", {}, JSON.stringify(prompt.parameters, null, 2)));
}

// One session: what was said on the left, what the log holds on the right, both live. The past is
// read once; from there on one stream of events tells everything, and one per open turn its words.

import { to, toAt, toCall, toDiff, toSession, toWhy } from "/page/address.js";
import { conversation } from "/page/conversation.js";
import { diffPane } from "/page/diff.js";
import { make, show } from "/page/dom.js";
import { exports } from "/page/exports.js";
import { get, ofSession } from "/page/http.js";
import { pastPane } from "/page/past.js";
import { promptPane } from "/page/prompt.js";
import { record } from "/page/record.js";
import { nameOf } from "/page/sentences.js";
import { whyPane } from "/page/why.js";
import { counted, figure, money, oneLine, total } from "/page/words.js";

const PAST = 200;
const MOVES_CALLS = ["context-assembled", "attempt-ended", "call-completed"];

export function sessionView(session) {
  const head = make("header", { class: "head" });
  const tabs = make("nav", { class: "tabs" });
  const side = make("section", { class: "side" }, tabs);
  const chat = conversation(session);
  const panes = make("div", { class: "panes" }, chat.element, side);
  const element = make("div", { class: "session" }, head, panes);
  const log = record(session);
  const past = pastPane(session);
  const prompt = promptPane(session);
  const why = whyPane(session);
  const difference = diffPane(session);
  let facts = null;
  let calls = [];
  let live = null;
  let rest = [];
  let other = null;
  let refreshing = null;
  let closed = false;

  async function open() {
    facts = await get(ofSession(session));
    const from = Math.max(0, facts.sequence - PAST);
    const [page, told] = await Promise.all([
      get(ofSession(session, "events"), { after: from, limit: 1000 }),
      get(ofSession(session, "history")),
    ]);
    if (closed) return;
    log.begin(page.events);
    chat.begin(told, facts);
    follow(page.after);
    await refreshCalls();
  }

  function follow(after) {
    live = new EventSource(`${ofSession(session, "events")}?after=${after}`);
    for (const name of log.names) live.addEventListener(name, (event) => take(JSON.parse(event.data)));
  }

  function take(envelope) {
    log.add(envelope);
    chat.take(envelope);
    facts.sequence = envelope.sequence;
    const name = nameOf(envelope.type);
    if (name === "session-closed") facts.closed = true;
    if (name === "turn-submitted" || name === "turn-queued") facts.turns += 1;
    if (MOVES_CALLS.includes(name)) refreshCalls(envelope.sequence);
    unverified();
    drawHead();
  }

  // The rows of calls follow the log a moment later, so this asks for those of the event just seen
  async function refreshCalls(sequence = facts.sequence) {
    refreshing = Math.max(refreshing ?? 0, sequence);
    const wanted = refreshing;
    const found = await get(ofSession(session, "calls"), { min_sequence: wanted }).catch(() => null);
    if (!found || closed || wanted < refreshing) return;
    calls = found.calls;
    chat.price(calls);
    drawHead();
    drawSide();
  }

  function drawHead() {
    const first = chat.title();
    document.title = first ? `${oneLine(first).slice(0, 60)} · Turnlog` : "Turnlog";
    const used = total(calls.flatMap((call) => [call.input_tokens, call.output_tokens]));
    const paid = total(calls.map((call) => call.micro_dollars));
    show(head,
      make("a", { class: "back", href: to([]), title: "All sessions" }, "←"),
      make("div", { class: "name" }, make("h1", {}, first ? oneLine(first) : session), make("div", { class: "id" }, session)),
      make("dl", {},
        fact("blueprint", `${facts.blueprint} v${facts.version}`),
        fact("profile", facts.profile),
        fact("turns", figure(facts.turns)),
        fact("events", figure(facts.sequence)),
        fact("tokens", used.whole ? figure(used.sum) : `≥ ${figure(used.sum)}`),
        fact("cost", paid.whole ? money(paid.sum) : paid.sum ? `≥ ${money(paid.sum)}` : "unknown")),
      facts.closed ? make("span", { class: "badge closed" }, "closed") : null,
      verdict, out);
  }

  const verdict = make("button", { class: "quiet verify", type: "button", on: { click: verify } }, "verify");

  const out = exports(session);

  function unverified() {
    verdict.className = "quiet verify";
    show(verdict, "verify");
  }

  async function verify() {
    show(verdict, "verifying …");
    const found = await get(ofSession(session, "verify"));
    verdict.className = `quiet verify ${found.verified ? "good" : "bad"}`;
    const first = found.findings[0];
    show(verdict, found.verified
      ? `✓ ${counted(found.events, "event")}, ${counted(found.prompts.calls, "prompt")}`
      : `✗ ${first.check}: ${first.detail}`);
    verdict.title = `head ${found.head}`;
  }

  function drawSide() {
    const [what, which, how, second] = rest;
    const call = what === "calls" ? which : null;
    const at = what === "at" ? Number(which) : null;
    drawTabs(call, how, second);
    drawChat(at);
    const pane = { why, diff: difference }[call && how] ?? (call ? prompt : log);
    const turned = pane.element.parentNode !== side;
    if (turned) show(side, tabs, pane.element);
    if (pane === difference) difference.show(call, second, other, calls);
    else if (pane === why) why.show(call);
    else if (call) prompt.show(call, calls);
    else if (what === "events" || at) log.open(at ?? Number(which));
    else {
      log.open(null);
      if (turned) log.atEnd();
    }
    chat.mark(second ?? call);
  }

  function drawTabs(call, how, second) {
    const mine = (second && !other ? second : call) ?? calls.at(-1)?.call;
    const place = calls.findIndex((each) => each.call === mine);
    const before = how === "diff" ? call : calls[Math.max(0, place - 1)]?.call;
    const tab = (name, href, current) => make("a", { href, "aria-current": current ? "page" : null }, name);
    show(tabs,
      tab("Record", toSession(session), !call && rest[0] !== "at"),
      mine ? tab("Prompts", toCall(session, mine), call && !how) : null,
      mine ? tab("Why", toWhy(session, mine), how === "why") : null,
      calls.length > 1 ? tab("Difference", how === "diff" ? location.hash : toDiff(session, before, mine), how === "diff") : null,
      tab("Past", toAt(session, facts.sequence), rest[0] === "at"));
  }

  function drawChat(at) {
    const wanted = at ? past : chat;
    if (wanted.element.parentNode !== panes) show(panes, wanted.element, side);
    if (at) past.show(at, facts.sequence);
  }

  const opening = open().then(drawSide).catch((problem) => {
    show(element, make("div", { class: "empty" }, make("p", { class: "fault" }, problem.message),
      make("p", {}, make("a", { href: to([]) }, "← all sessions"))));
  });

  return {
    element,
    close: () => { closed = true; live?.close(); chat.close(); },
    go: (steps, query) => {
      rest = steps;
      other = query.get("other");
      opening.then(() => facts && drawSide());
    },
  };
}

const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));

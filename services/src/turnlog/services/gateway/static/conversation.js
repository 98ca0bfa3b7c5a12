// The conversation as people read it, folded from the stored events. The text of an open turn comes
// from the turn stream; the recorded reply replaces it.

import { toCall } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { ofSession, post } from "/page/http.js";
import { nameOf } from "/page/sentences.js";
import { inOrder, stayOf, threshold } from "/page/stays.js";
import { said, seconds, money, total, figure } from "/page/words.js";
import { watch } from "/page/watching.js";
import { WORK, work } from "/page/work.js";

const RECENT = 100;

export function conversation(session) {
  const turns = new Map();
  const items = new Map();
  const list = make("div", { class: "turns", "aria-live": "polite" });
  const earlier = make("button", { class: "quiet earlier", type: "button", hidden: true, on: { click: unfold } }, "earlier turns");
  const scroll = make("div", { class: "scroll" }, earlier, list);
  const writing = composer(session);
  const element = make("section", { class: "chat" }, scroll, writing.element);
  const streams = new Map();
  let stays = [];
  let seen = 0;
  let marked = null;
  let shown = RECENT;

  function begin(told, facts) {
    for (const turn of told.turns) turns.set(turn.turn, turn);
    stays = told.stays;
    seen = told.sequence;
    writing.close(facts.closed);
    redraw();
    scroll.scrollTop = scroll.scrollHeight;
  }

  function take(envelope) {
    if (envelope.sequence <= seen) return;
    seen = envelope.sequence;
    const name = nameOf(envelope.type);
    const fold = FOLDS[name];
    if (name === "session-closed") writing.close(true);
    if (name === "phase-entered") enter(stayOf(envelope));
    if (!fold) return;
    const number = envelope.data.turn;
    const folded = turns.has(number) && !items.has(number);
    const before = turns.get(number) ?? {};
    turns.set(number, { ...before, ...fold(envelope.data, before) });
    if (OPENS.includes(name)) belong(number);
    if (!folded) draw(number);
  }

  function enter(stay) {
    stays = [...stays, stay];
    divide(stay);
  }

  function belong(number) {
    stays = stays.map((stay) => ({ ...stay, turns: stay.turns.filter((each) => each !== number) }));
    stays.at(-1)?.turns.push(number);
  }

  const divide = (stay) => list.append(threshold(stay));

  function unfold() {
    shown += RECENT;
    redraw();
  }

  function redraw() {
    const numbers = [...turns.keys()];
    earlier.hidden = numbers.length <= shown;
    items.clear();
    show(list);
    inOrder(numbers.slice(-shown).map((number) => turns.get(number)), stays, (turn) => draw(turn.turn), divide);
  }

  function draw(number) {
    const near = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
    const turn = turns.get(number);
    if (!items.has(number)) {
      items.set(number, make("article", { class: "turn" }));
      list.append(items.get(number));
    }
    follow(turn);
    const live = streams.get(number);
    items.get(number).className = `turn ${turn.status}${turn.excluded ? " excluded" : ""}`;
    items.get(number).dataset.turn = number;
    show(items.get(number), question(turn), work(session, turn), answer(turn, live), foot(turn));
    writing.busy([...turns.values()].some((each) => each.status === "open"));
    if (near) scroll.scrollTop = scroll.scrollHeight;
  }

  function follow(turn) {
    const waits = turn.status === "open" || turn.status === "queued";
    if (waits && !streams.has(turn.turn) && streams.size < 2) {
      const stream = watch(session, turn.turn, () => keepDown());
      streams.set(turn.turn, stream);
    } else if (!waits && streams.has(turn.turn)) {
      streams.get(turn.turn).close();
      streams.delete(turn.turn);
      for (const other of turns.values()) if (other.status === "open") follow(other);
    }
  }

  function keepDown() {
    if (scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120) scroll.scrollTop = scroll.scrollHeight;
  }

  function foot(turn) {
    const parts = [make("span", { class: "faint" }, `turn ${turn.turn}`)];
    if (turn.status !== "completed") parts.push(make("span", { class: `badge ${turn.status}` }, turn.status));
    if (turn.excluded) parts.push(make("span", { class: "badge excluded" }, "excluded"));
    if (turn.purged) parts.push(make("span", { class: "badge excluded" }, "purged"));
    if (turn.redacted) parts.push(make("span", { class: "badge redacted", title: turn.reason }, "redacted"));
    if (turn.finish === "length") parts.push(make("span", { class: "badge length" }, "cut at the model's limit"));
    const calls = turn.calls ?? [];
    for (const call of calls) parts.push(why(call, calls.length > 1 ? ` ${call.kind}` : ""));
    return make("footer", {}, parts);
  }

  function why(call, kind) {
    const spent = total([call.input_tokens, call.output_tokens]);
    const last = call.attempts.at(-1);
    const figures = [spent.whole ? `${figure(spent.sum)} tokens` : null, call.micro_dollars === null ? null : money(call.micro_dollars),
      last?.total_ms ? seconds(last.total_ms) : null, call.attempts.length > 1 ? `${call.attempts.length} attempts` : null];
    return [
      make("a", { href: toCall(session, call.call), class: call.call === marked ? "why here" : "why", title: "The exact prompt of this call" }, `call ${call.call}${kind}`),
      make("span", { class: "faint" }, figures.filter(Boolean).join(" · ")),
    ];
  }

  return {
    element, begin, take,
    title: () => turns.values().next().value?.text,
    price: (calls) => {
      for (const turn of turns.values()) turn.calls = calls.filter((call) => call.turn === turn.turn);
      for (const number of items.keys()) draw(number);
    },
    mark: (call) => {
      if (call === marked) return;
      marked = call;
      for (const number of items.keys()) draw(number);
      element.querySelector(".why.here")?.closest(".turn").scrollIntoView({ block: "nearest" });
    },
    close: () => streams.forEach((stream) => stream.close()),
  };
}

const OPENS = ["turn-submitted", "turn-queued", "turn-released"];
const FOLDS = {
  ...WORK,
  "turn-submitted": (data) => ({ turn: data.turn, status: "open", text: said(data.text), reply: null }),
  "turn-queued": (data) => ({ turn: data.turn, status: "queued", text: said(data.text), reply: null }),
  "turn-released": () => ({ status: "open" }),
  "turn-completed": (data) => ({ status: "completed", reply: said(data.text), finish: data.finish }),
  "turn-failed": (data) => ({ status: "failed", reason: `${data.code}: ${data.detail}` }),
  "turn-cancelled": (data) => ({ status: "cancelled", reason: data.reason }),
  "turn-excluded": () => ({ excluded: true }),
  "turn-restored": () => ({ excluded: false }),
  "reply-redacted": (data) => ({ status: "completed", redacted: true, reply: said(data.replacement), reason: data.reason }),
};

export const question = (turn) => (turn.text === null || turn.text === undefined ? null : make("div", { class: "bubble input" }, turn.text));

export function answer(turn, live) {
  switch (turn.status) {
    case "completed": return make("div", { class: `bubble reply${turn.redacted ? " redacted" : ""}` }, turn.reply ?? "(sealed)");
    case "failed": return make("div", { class: "bubble reply fault" }, turn.reason);
    case "cancelled": return make("div", { class: "bubble reply given-up" }, `given up: ${turn.reason}`);
    default: return live?.element ?? make("div", { class: "bubble reply waiting" }, "waits");
  }
}

function composer(session) {
  const fault = make("p", { class: "fault", hidden: true });
  const text = make("textarea", { rows: 1, placeholder: "Submit a turn", "aria-label": "Submit a turn", on: { keydown: typed } });
  const send = make("button", { type: "submit" }, "Send");
  const stop = make("button", { type: "button", class: "quiet", hidden: true, on: { click: () => act("cancel", {}) } }, "Stop");
  const element = make("form", { class: "composer", on: { submit: submitted } }, fault, text, stop, send);

  function typed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    element.requestSubmit();
  }

  async function submitted(event) {
    event.preventDefault();
    if (text.value.trim() && (await act("turns", { text: text.value }))) text.value = "";
  }

  async function act(what, body) {
    try {
      await post(ofSession(session, what), body);
      fault.hidden = true;
      return true;
    } catch (problem) {
      fault.hidden = false;
      fault.textContent = [problem.message, problem.fix].filter(Boolean).join(" · ");
      return false;
    }
  }

  return { element, close: (closed) => { element.hidden = closed; }, busy: (busy) => { stop.hidden = !busy; } };
}

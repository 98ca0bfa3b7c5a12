// The verification result of a session: one line for each verdict, and the findings with their events.
// It runs on request only, because it reads the whole session.

import { toEvent } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { exportOf } from "/page/exports.js";
import { get, ofSession } from "/page/http.js";
import { counted, figure, money } from "/page/words.js";

const MEANT = {
  intact: ["good", "every event continues the one before it, and no turn was settled twice"],
  broken: ["bad", "something is not as it was written"],
  witnessed: ["good", "nothing is missing, and what was noted is still there"],
  unwitnessed: ["wary", "nothing is missing in between; a signed checkpoint would show a cut end"],
  incomplete: ["bad", "something is missing"],
  reproduced: ["good", "each prompt comes out byte for byte, both ways"],
  unreproducible: ["wary", "not reproducible by this version"],
  unchecked: ["wary", "what lies behind a hole cannot be had again"],
  failed: ["bad", "prompts come out otherwise than they were recorded"],
  equal: ["good", "the read models say what the log says"],
  elsewhere: ["wary", "not compared: the read models have not come as far as the log"],
  differ: ["bad", "the read models say something else"],
};
const MARKS = { good: "✓", wary: "–", bad: "✗" };
const SHOWN = 50;

export function proofPane(session, told) {
  const element = make("div", { class: "audit scroll" });
  let verified = null;

  // The result stays valid until a new event arrives.
  async function showAt(sequence) {
    if (verified === sequence) return;
    verified = sequence;
    show(element, make("p", { class: "faint" }, "verifying …"));
    try {
      const found = await get(ofSession(session, "verify"));
      told(found);
      show(element, draw(found, session));
    } catch (problem) {
      verified = null;
      show(element, make("p", { class: "fault" }, problem.message));
    }
  }

  return { element, show: showAt };
}

function draw(found, session) {
  const extent = `${counted(found.events, "event")}, ${counted(found.prompts.calls, "prompt")}`;
  return [
    make("p", { class: `verdict large ${found.verified ? "good" : "bad"}` },
      found.verified ? "✓ verified" : `✗ ${counted(found.findings.length, "finding")}`,
      make("span", { class: "faint" }, ` · ${extent}, up to event ${found.sequence}`)),
    make("dl", { class: "promises" }, ["integrity", "completeness", "reproduction", "totals"].map((name) => promise(name, found, session))),
    make("h2", {}, "what the log comes to"),
    make("p", {}, sums(found.log)),
    make("h2", {}, "taking nobody's word"),
    make("p", { class: "faint" }, "This is the word of the service. ", exportOf(session, "bundle", "A bundle"), " is checked by a stranger with ",
      make("code", {}, "python3 -I verify.py"), ", or here with ", make("code", {}, "turnlog verify --bundle FILE"), ". ",
      make("code", {}, "turnlog checkpoint FILE"), " signs where every session ends; held against it, a cut end shows."),
    make("h2", {}, "the digest of its last event"),
    make("code", { class: "digest" }, found.head),
  ];
}

function promise(name, found, session) {
  const [mark, meaning] = MEANT[found[name]];
  const wrong = found.findings.filter((finding) => finding.verdict === name);
  return [
    make("dt", { class: mark }, MARKS[mark]),
    make("dd", {}, make("strong", {}, name), make("span", { class: mark }, ` ${found[name]}`), make("span", { class: "faint" }, ` · ${meaning}`),
      name === "reproduction" ? make("p", { class: "faint" }, prompts(found.prompts)) : null,
      wrong.slice(0, SHOWN).map((finding) => make("p", { class: "fault" }, place(finding, session), finding.detail)),
      wrong.length > SHOWN ? make("p", { class: "faint" }, `and ${figure(wrong.length - SHOWN)} more`) : null),
  ];
}

const place = ({ sequence }, session) => (sequence === null ? null : [make("a", { href: toEvent(session, sequence) }, `event ${sequence}`), ": "]);

function prompts({ calls, reference, assembly, unreproducible, why, unchecked, behind }) {
  return [
    `${figure(reference)} by reference and ${figure(assembly)} by assembly of ${figure(calls)}`,
    unreproducible ? `${figure(unreproducible)} not by this version: ${why}` : null,
    unchecked ? `${figure(unchecked)} not checked: ${behind}` : null,
  ].filter(Boolean).join("; ");
}

function sums({ turns, calls, attempts, tokens, input_tokens: sent, output_tokens: got, micro_dollars: cost }) {
  return [counted(turns, "turn"), counted(calls, "call"), counted(attempts, "attempt"), `${counted(tokens, "token")} of prompts`,
    `${figure(sent)} → ${figure(got)} tokens, ${money(cost)} as far as known`].join(" · ");
}

// What can be done with a session: give it a title and labels, and between its turns switch its phase, or its
// profile and model.

import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { createActionButton, createField, openActionDialog } from "./action_dialog.js";

export const renderPhaseButton = (session, facts, listPhases) =>
  createActionButton(`${session} phase`, "switch", () => openPhaseSwitch(session, facts, listPhases()), { "aria-label": `switch the phase, now ${facts.phase}` });

export const renderProfileButton = (session, facts) =>
  createActionButton(`${session} profile`, "switch", () => openProfileSwitch(session, facts), { "aria-label": `switch the profile, now ${facts.profile}` });

export const renderDescribeButton = (session, facts) =>
  createActionButton(`${session} description`, "rename", () => openDescription(session, facts), { "aria-label": "rename the session, or change its labels" });

function openDescription(session, facts) {
  openActionDialog({
    title: "Title and labels", confirm: "Save", intro: "No prompt has them, and they may change at any time.",
    fields: [
      createField({ name: "title", label: "Title", value: facts.title ?? "", maxlength: 200, hint: "If empty, lists show the first turn." }),
      createField({ name: "labels", label: "Labels", kind: "textarea", value: facts.labels.join("\n"), hint: "One a line." }),
    ],
    buildCommand: ({ title, labels }) => ["PATCH", buildSessionPath(session), { title, labels: labels.split("\n").map((each) => each.trim()).filter(Boolean) }],
  });
}

// A blueprint lets clients move between its phases, or defines which phase follows on a signal.
function openPhaseSwitch(session, facts, phases) {
  const to = createField({ name: "to", label: "Phase", need: "Name the phase to enter.", suggestions: phases.filter((each) => each !== facts.phase), hint: `Now ${facts.phase}. If there is no such phase, the answer lists those there are.` });
  const carry = createField({ name: "carry", label: "Carried over", kind: "textarea", maxlength: 20_000, hint: "What prompts of the next phase say of this one. It may be empty." });
  const signal = createField({ name: "signal", label: "Signal", need: "Name a signal that the phase offers.", hint: "The blueprint defines which phase follows." });
  const how = createField({ name: "how", label: "How", kind: "select", options: [["to", "move to a phase by its name"], ["signal", "end this phase by a signal"]], change: showFields });

  function showFields(chosen) {
    signal.element.hidden = chosen !== "signal";
    to.element.hidden = carry.element.hidden = chosen === "signal";
  }

  showFields("to");
  openActionDialog({
    title: "Switch the phase", confirm: "Switch", fields: [how, to, carry, signal],
    intro: "The next turn is in the new phase, with its layers, tools and limits.",
    buildCommand: (values) => ["POST", buildSessionPath(session, "phase"), values.how === "signal" ? { signal: values.signal } : { to: values.to, ...(values.carry ? { carry: values.carry } : {}) }],
  });
}

async function openProfileSwitch(session, facts) {
  const profiles = await listProfiles(facts);
  openActionDialog({
    title: "Switch the profile or the model", confirm: "Switch",
    intro: "It holds from the next turn on.",
    fields: [
      createField({ name: "profile", label: "Profile", kind: "select", value: facts.profile, options: profiles.map((each) => [each, each === facts.profile ? `${each}, as now` : each]) }),
      createField({ name: "model", label: "Model", value: facts.model ?? "", hint: "A model that the blueprint names or allows. If empty, the profile's own." }),
    ],
    buildCommand: ({ profile, model }) => ["POST", buildSessionPath(session, "profile"), { profile, ...(model ? { model } : {}) }],
  });
}

// The files of a blueprint may be gone; its sessions still have the profile they have.
async function listProfiles({ blueprint, profile }) {
  const { profiles } = await fetchJson(`/v1/blueprints/${encodeURIComponent(blueprint)}`).catch(() => ({ profiles: [] }));
  return [...new Set([...profiles, profile])];
}

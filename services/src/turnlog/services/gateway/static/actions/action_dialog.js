// The dialog in which a command is looked at before it is sent: what it does, its fields, and what went
// wrong, in words, beside the field. Escape closes it, and the focus returns to the button that opened it.

import { createElement, setChildren } from "../app/dom.js";
import { createKeyedSender, describeProblem } from "../app/http_client.js";

let dialogs = 0;
let pressed = null;

// `fields` are made by `createField`. `buildCommand` takes their values and returns the method, path and
// body of the request. `loadPreview` returns what the dialog shows before the fields. `nextKey` is the button
// that has the focus once the command was carried out, where its own button is gone then. `showPreview` of the
// dialog loads the preview again, such as for another choice.
export function openActionDialog({ title, intro, fields = [], confirm, isSevere = false, buildCommand, loadPreview = null, nextKey = null }) {
  const opener = pressed ?? document.activeElement;
  const id = `dialog-${(dialogs += 1)}`;
  const preview = createElement("div", { class: "preview", role: "status", hidden: !loadPreview }, "looking …");
  const fault = createElement("p", { class: "fault", role: "alert", hidden: true });
  const send = createElement("button", { type: "submit", class: isSevere ? "severe" : null }, confirm);
  const form = createElement("form", { novalidate: true, on: { submit: sendCommand } },
    createElement("h2", { id }, title), intro ? createElement("p", { id: `${id}-intro` }, intro) : null, preview, fields.map((field) => field.element), fault,
    createElement("div", { class: "choices" }, createElement("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel"), send));
  const dialog = createElement("dialog", { class: "action", "aria-labelledby": id, "aria-describedby": intro ? `${id}-intro` : null, on: { close: endDialog } }, form);
  const sendKeyed = createKeyedSender();
  let isDone = false;

  async function sendCommand(event) {
    event.preventDefault();
    fault.hidden = true;
    const incomplete = fields.filter((field) => !field.check());
    if (incomplete.length) {
      incomplete[0].focus();
      return;
    }
    send.disabled = true;
    try {
      await sendKeyed(...buildCommand(Object.fromEntries(fields.map((field) => [field.name, field.read()]))));
      isDone = true;
      dialog.close();
    } catch (problem) {
      showProblem(problem);
    }
    send.disabled = false;
  }

  function showProblem(problem) {
    const [name] = problem.field?.split(".") ?? [];
    const field = fields.find((each) => each.name === name && !each.element.hidden);
    if (field) {
      field.showFault(describeProblem(problem));
      field.focus();
    } else {
      fault.hidden = false;
      fault.textContent = describeProblem(problem);
    }
  }

  async function showPreview() {
    try {
      setChildren(preview, await loadPreview());
    } catch (problem) {
      setChildren(preview, createElement("p", { class: "fault" }, describeProblem(problem)));
    }
  }

  // The view may have been drawn again meanwhile; then the button of the same name has the focus.
  function endDialog() {
    dialog.remove();
    const key = (isDone && nextKey) || opener.dataset.key;
    const found = key ? document.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
    (found ?? opener).focus();
  }

  document.body.append(dialog);
  dialog.showModal();
  (fields.length ? fields[0] : send).focus();
  if (loadPreview) showPreview();
  return { showPreview };
}

// A labelled box. `kind` is `select`, `textarea` or `input`; `need` says what is missing when it is empty.
export function createField({ name, label, kind = "input", hint = "", need = "", value = "", maxlength = null, options = [], suggestions = [], change = null }) {
  const id = `field-${name}-${(dialogs += 1)}`;
  const fault = createElement("p", { class: "fault", id: `${id}-fault`, role: "alert", hidden: true });
  const list = suggestions.length ? createElement("datalist", { id: `${id}-list` }, suggestions.map((each) => createElement("option", { value: each }))) : null;
  const box = createElement(kind, { id, name, maxlength, rows: kind === "textarea" ? 3 : null, list: list?.id, "aria-describedby": `${id}-fault ${id}-hint`, "aria-required": need ? "true" : null,
    on: { input: () => showFault(""), change: () => change?.(box.value) } }, options.map(([option, text]) => createElement("option", { value: option }, text)));
  const element = createElement("div", { class: "field" }, createElement("label", { for: id }, label), box, list, fault, createElement("p", { class: "hint", id: `${id}-hint`, hidden: !hint }, hint));
  box.value = value;

  function showFault(text) {
    fault.textContent = text;
    fault.hidden = !text;
    if (text) box.setAttribute("aria-invalid", "true");
    else box.removeAttribute("aria-invalid");
  }

  const read = () => box.value.trim();

  function check() {
    const isMissing = Boolean(need) && !element.hidden && !read();
    showFault(isMissing ? need : "");
    return !isMissing;
  }

  return { name, element, read, check, showFault, focus: () => box.focus() };
}

// A button that opens a dialog. The key makes it the same button when its view is drawn again.
export function createActionButton(key, text, open, properties = {}) {
  const press = (event) => {
    pressed = event.currentTarget;
    open();
  };
  return createElement("button", { type: "button", class: "quiet action", "data-key": key, ...properties, on: { click: press } }, text);
}

// Pictures, recordings and files of a turn: how they are shown, and how a person attaches them.

import { createElement, setChildren } from "../app/dom.js";

const NAMES = { image: "picture", audio: "recording", file: "file" };

const buildBlobPath = (digest) => `/v1/blobs/${encodeURIComponent(digest)}`;

// Pictures are shown small and lead to the whole; everything else is a link.
export function renderParts(parts) {
  if (!parts?.length) return null;
  return createElement("div", { class: "parts" }, parts.map((part) => {
    const name = part.name ?? `${NAMES[part.kind]} without a name`;
    const shown = part.kind === "image" ? createElement("img", { src: buildBlobPath(part.digest), alt: name, loading: "lazy" }) : name;
    return createElement("a", { href: buildBlobPath(part.digest), title: `${name} · ${part.media_type}`, target: "_blank", rel: "noreferrer" }, shown);
  }));
}

const findKind = (type) => ({ image: "image", audio: "audio" })[type.split("/")[0]] ?? "file";

// Files that were chosen and not sent yet. They are uploaded when the turn is submitted.
export function createAttachments(changed) {
  let files = [];
  const chosen = createElement("ul", { class: "attachments", "aria-label": "Attached files", hidden: true });
  const input = createElement("input", { type: "file", multiple: true, hidden: true, on: { change: addFiles } });
  const button = createElement("button", { type: "button", class: "quiet", "aria-label": "Attach pictures, recordings or files", on: { click: () => input.click() } }, "Attach");

  function addFiles() {
    files = [...files, ...input.files];
    input.value = "";
    draw();
  }

  function draw() {
    chosen.hidden = !files.length;
    setChildren(chosen, files.map((file) => createElement("li", {}, file.name,
      createElement("button", { type: "button", class: "quiet", "aria-label": `Remove ${file.name}`, on: { click: () => { files = files.filter((each) => each !== file); draw(); } } }, "×"))));
    changed();
  }

  async function upload(file, sendBytes) {
    const { digest, media_type: type } = await sendBytes("/v1/blobs", file);
    return { type: findKind(type), digest, name: file.name };
  }

  return {
    controls: [chosen, input, button],
    isEmpty: () => !files.length,
    upload: (sendBytes) => Promise.all(files.map((file) => upload(file, sendBytes))),
    clear: () => { files = []; draw(); },
  };
}

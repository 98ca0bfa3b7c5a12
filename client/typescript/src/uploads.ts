/** Uploads that go on after a connection broke, as far as the service has their bytes. */

import type { components } from "./api.js";
import { parseJson, readText } from "./bounds.js";
import { createError } from "./errors.js";
import { computeRetryDelay, sleep } from "./retries.js";

type StoredBlob = components["schemas"]["StoredBlobView"];

const OFFSET = "Upload-Offset";
const NOT_FOUND = 404;
/** The status of an upload that goes on where the service has other bytes than its client thinks. */
const OFFSET_CONFLICT = 409;

/** Return the digest under which the service stores bytes. */
async function computeDigest(content: Uint8Array): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", Uint8Array.from(content)));
  return `sha256:${[...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Return how many bytes the service says that it has; 0 for what cannot be. */
function readOffset(response: Response, size: number): number {
  const stated = response.headers.get(OFFSET) ?? "";
  const offset = /^\d+$/.test(stated) ? Number(stated) : 0;
  return offset < size ? offset : 0;
}

/**
 * Store bytes, unless the service has them; after a failure the rest of them suffices.
 *
 * Each try asks first how many bytes the service has. Behind it may be several gateways, of which
 * one alone has the beginning: where the rest is refused, the whole is sent.
 */
export async function sendUpload(
  url: string,
  headers: Record<string, string>,
  content: Uint8Array,
  mediaType: string,
): Promise<StoredBlob> {
  const digest = await computeDigest(content);
  const lookup = new URL(`/v1/blobs/${encodeURIComponent(digest)}`, url);
  const upload = new URL(`/v1/blobs?digest=${encodeURIComponent(digest)}`, url);
  const sendRest = (offset: number): Promise<Response> => {
    const sent = { ...headers, "Content-Type": mediaType };
    const body = Uint8Array.from(content.subarray(offset));
    return fetch(upload, {
      method: "POST",
      headers: offset === 0 ? sent : { ...sent, [OFFSET]: String(offset) },
      body,
      redirect: "manual",
    });
  };
  const attempt = async (): Promise<Response> => {
    const found = await fetch(lookup, { method: "HEAD", headers, redirect: "manual" });
    if (found.status !== NOT_FOUND) return found;
    const offset = readOffset(found, content.length);
    const response = await sendRest(offset);
    if (offset === 0 || response.status !== OFFSET_CONFLICT) return response;
    await response.body?.cancel();
    return sendRest(0);
  };
  for (let tries = 1; ; tries += 1) {
    let failure: unknown = null;
    const response = await attempt().catch((error: unknown) => {
      failure = error;
      return null;
    });
    if (response?.ok) return readStored(response, digest);
    const delay = computeRetryDelay(tries, response);
    if (delay === null) {
      const text = response === null ? "" : await readText(response);
      throw createError(lookup, response, failure, text);
    }
    await response?.body?.cancel();
    await sleep(delay);
  }
}

/** Return what is stored, as the answer to an upload says it, or to the question whether it is. */
async function readStored(response: Response, digest: string): Promise<StoredBlob> {
  const text = await readText(response);
  if (text !== "") return parseJson<StoredBlob>(text);
  const [type = ""] = (response.headers.get("Content-Type") ?? "").split(";");
  return { digest, size: Number(response.headers.get("Content-Length")), media_type: type };
}

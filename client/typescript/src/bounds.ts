/** How much of an answer is read: a body, a line and an event have a limit each. */

import { AnswerTooLarge, UnusableAnswer } from "./errors.js";

const MEBI = 1024 * 1024;
/** Size of an answer that is read whole, at most; `fetch` has unpacked it by then. */
export const MAX_BODY = 64 * MEBI;
/** Size of a line, or of the data of an event, of an answer that is read as it comes. */
export const MAX_LINE = 16 * MEBI;

/** Throw `AnswerTooLarge` for more than is read. */
export function checkSize(size: number, limit: number, what: string): void {
  if (size > limit) throw new AnswerTooLarge(`${what} is larger than ${limit / MEBI} MiB`);
}

/** Return the whole body of a response. */
export async function readText(response: Response): Promise<string> {
  if (response.body === null) return "";
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let text = "";
  let size = 0;
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      size += piece.value.byteLength;
      checkSize(size, MAX_BODY, "the answer");
      text += decoder.decode(piece.value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
  return text + decoder.decode();
}

/** Return the value of a text that a service sent as JSON. */
export function parseJson<Value>(text: string): Value {
  try {
    return JSON.parse(text) as Value;
  } catch {
    const fix = "see that a service of this release runs at the address";
    throw new UnusableAnswer("the answer is no JSON", null, { code: "bad-answer", fix });
  }
}

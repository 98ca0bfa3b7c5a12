/** The server-sent events of a service: decoding their frames, and what a turn stream says. */

import type { components } from "./api.js";
import { checkSize, MAX_LINE } from "./bounds.js";

/** One server-sent event. */
export interface SseMessage {
  name: string;
  data: string;
  /** The value to send back as `Last-Event-ID`. */
  cursor: string;
}

type Schemas = components["schemas"];

type TurnEventOf<Frame> = Frame extends { event: infer Name; data: infer Data }
  ? { name: Name; data: Data; cursor: string }
  : never;

/** One event of a turn stream; `cursor` is where a stream can go on after it. */
export type TurnEvent = TurnEventOf<Schemas["TurnStreamEvent"]>;

/** What a `done` event says: of a reply, of an exchange within a phase, or of a debrief. */
export type ReplyDone = Schemas["ReplyDonePayload"];
export type ExchangeDone = Schemas["ExchangeDonePayload"];
export type DebriefDone = Schemas["DebriefDonePayload"];

/** The names of the events that end a turn stream. */
export const END_EVENTS: ReadonlySet<string> = new Set(["done", "redact", "failed", "cancelled"]);

/** An event of the log as its reader gets it. */
export interface SessionEvent {
  /** Its type, such as `turn-completed`. */
  name: string;
  /** The position to go on from: the sequence in a session, the stream sequence in a tenant. */
  cursor: string;
  /** The CloudEvents envelope; the payload is its `data`, by its `type`. Ignore types that you do not know. */
  envelope: Schemas["StoredEvent"];
}

type ReplyEventOf<Frame> = Frame extends { event: infer Name; data: infer Data }
  ? Name extends "token" | "attempt-reset"
    ? { name: Name; data: Data; cursor: string }
    : never
  : never;

/**
 * What is generated of a reply, between the events of a stream with `tokens`.
 *
 * The `cursor` of one in the stream of a session says how much of the reply was sent. In the stream of all
 * sessions it is that of the last event before it: tokens of a lost connection are not sent again.
 */
export type ReplyEvent = ReplyEventOf<Schemas["EventOrTokenEvent"]>;

/** The names of what is no event of the log in a stream with `tokens`. */
export const REPLY_EVENTS: ReadonlySet<string> = new Set(["token", "attempt-reset"]);

/** Return whether an event of a stream with `tokens` is generated of a reply, and not of the log. */
export function isReplyEvent(event: SessionEvent | ReplyEvent): event is ReplyEvent {
  return REPLY_EVENTS.has(event.name);
}

/** Yield the events of a body as they become complete. */
export async function* decodeMessages(body: ReadableStream<Uint8Array>): AsyncGenerator<SseMessage> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let incomplete = "";
  let message = { name: "message", data: [] as string[], size: 0 };
  let cursor = "";
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      // Only a line feed ends a line: JSON has other line separators within its texts.
      const text = decoder.decode(piece.value, { stream: true });
      incomplete += text;
      checkSize(incomplete.length, MAX_LINE, "a line of the answer");
      if (!text.includes("\n")) continue;
      const lines = incomplete.split("\n");
      incomplete = lines.pop() ?? "";
      for (const line of lines.map((each) => each.replace(/\r$/, ""))) {
        const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
        if (field === "event") message.name = value;
        else if (field === "id") cursor = value;
        else if (field === "data") {
          message.size += value.length + 1;
          checkSize(message.size, MAX_LINE, "an event of the stream");
          message.data.push(value);
        } else if (line === "") {
          if (message.data.length > 0) {
            yield { name: message.name, data: message.data.join("\n"), cursor };
          }
          message = { name: "message", data: [], size: 0 };
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

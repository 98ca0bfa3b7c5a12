/** The server-sent events of a service: decoding their frames, and what a turn stream says. */

/** One server-sent event. */
export interface SseMessage {
  name: string;
  data: string;
  /** The value to send back as `Last-Event-ID`. */
  cursor: string;
}

/** One event of a turn stream; `cursor` is where a stream can go on after it. */
export type TurnEvent = { cursor: string } & (
  | { name: "token"; data: { text: string } }
  /** The text so far is void, and the reply begins anew. */
  | { name: "attempt-reset"; data: { attempt: number } }
  /** What the turn does before its reply begins; a hint. */
  | { name: "progress"; data: { call: string; doing: string; tool?: string } }
  /** A tool that waits for a person's approval; `decision` is null until one is made. */
  | {
      name: "approval";
      data: { approval: number; tool: string; arguments: string; deadline: string; decision: "approve" | "refuse" | null };
    }
  /** The turn is completed; its reply is the joined text since the last reset. */
  | { name: "done"; data: Record<string, unknown> }
  /** The reply was withheld; the replacement stands for all text so far. */
  | { name: "redact"; data: { reason: string; replacement: string } }
  | { name: "failed"; data: { code: string; retryable: boolean; partial: string } }
  | { name: "cancelled"; data: { reason: string } }
);

/** The names of the events that end a turn stream. */
export const END_EVENTS: ReadonlySet<string> = new Set(["done", "redact", "failed", "cancelled"]);

/** An event of the log as its reader gets it. */
export interface SessionEvent {
  /** Its type, such as `turn-completed`. */
  name: string;
  /** The position to go on from: the sequence in a session, the stream sequence in a tenant. */
  cursor: string;
  /** The CloudEvents envelope; the payload is its `data`. */
  envelope: Record<string, unknown> & { sequence: number; data: Record<string, unknown> };
}

/** Yield the events of a body as they become complete. */
export async function* decodeMessages(body: ReadableStream<Uint8Array>): AsyncGenerator<SseMessage> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let incomplete = "";
  let message = { name: "message", data: [] as string[] };
  let cursor = "";
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      // Only a line feed ends a line: JSON has other line separators within its texts.
      const lines = (incomplete + decoder.decode(piece.value, { stream: true })).split("\n");
      incomplete = lines.pop() ?? "";
      for (const line of lines.map((each) => each.replace(/\r$/, ""))) {
        const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
        if (field === "event") message.name = value;
        else if (field === "id") cursor = value;
        else if (field === "data") message.data.push(value);
        else if (line === "") {
          if (message.data.length > 0) {
            yield { name: message.name, data: message.data.join("\n"), cursor };
          }
          message = { name: "message", data: [] };
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

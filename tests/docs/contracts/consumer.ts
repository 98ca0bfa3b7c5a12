// Compiled with the types that json2ts makes of events.schema.json: each type of events narrows.
import type { EventsAndStreamsOfTurnlog as StoredEvent } from "./events";
import type { TokenEvent } from "./tokens";

export function describe(event: StoredEvent): string {
  switch (event.type) {
    case "turnlog.turn-completed.v1":
      return `${event.data.turn}: ${event.data.finish} at ${event.sequence}`;
    case "turnlog.reply-redacted.v1":
      return event.data.reason;
    default:
      return event.subject;
  }
}

export function append(text: string, event: TokenEvent): string {
  switch (event.kind) {
    case "token":
      return text.slice(0, event.offset) + event.text;
    case "attempt-reset":
      return "";
    default:
      return text;
  }
}

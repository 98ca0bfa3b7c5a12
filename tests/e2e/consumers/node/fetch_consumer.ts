/** A consumer over HTTP with nothing but fetch: `fetch_consumer URL FILE`. */

import { addEvent, addToken, findReply, load, save } from "./consumer_state.js";
import type { EventOrTokenEvent } from "./stream.js";

interface Frame {
  id: string;
  event: string;
  data: string;
}

const [service = "", file = ""] = process.argv.slice(2);
const state = load(file);
// Tokens of a lost connection are not sent again
for (const [turn, reply] of Object.entries(state.replies)) {
  if (reply.text !== state.recorded[turn]) reply.is_cut = true;
}

async function* readFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  let received = "";
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    const blocks = (received + decoder.decode(chunk, { stream: true })).split("\n\n");
    received = blocks.pop() ?? "";
    for (const block of blocks) {
      const frame: Frame = { id: "", event: "", data: "" };
      for (const [, field, value] of block.matchAll(/^(id|event|data): ?(.*)$/gm)) {
        frame[field as keyof Frame] += value;
      }
      if (frame.data) yield frame;
    }
  }
}

function apply(frame: Frame): void {
  const event = { event: frame.event, data: JSON.parse(frame.data) } as EventOrTokenEvent;
  switch (event.event) {
    case "unreadable":
      throw new Error(frame.data);
    case "token":
    case "attempt-reset": {
      const { session, turn, attempt } = event.data;
      const [offset, text] = event.event === "token" ? [event.data.offset, event.data.text] : [];
      addToken(findReply(state, session, turn), event.event, attempt, offset, text);
      break;
    }
    default: {
      const stored = event.data;
      addEvent(state, stored, frame.data);
      if (stored.type === "turnlog.turn-completed.v1" && "text" in stored.data.text) {
        state.recorded[`${stored.subject}/${stored.data.turn}`] = stored.data.text.text;
      }
      state.place = Number(frame.id);
    }
  }
  save(file, state);
}

for (;;) {
  const headers = { Accept: "text/event-stream", "Last-Event-ID": String(state.place) };
  const answer = await fetch(`${service}/v1/events?tokens=true&stored=true`, { headers });
  if (!answer.ok || !answer.body) throw new Error(await answer.text());
  for await (const frame of readFrames(answer.body)) apply(frame);
}

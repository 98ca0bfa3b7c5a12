/** A consumer on NATS with nats.js: `nats_consumer URL FILE`. */

import { connect } from "@nats-io/transport-node";
import { DeliverPolicy, jetstream } from "@nats-io/jetstream";
import type { ConsumerMessages } from "@nats-io/jetstream";
import { addEvent, addToken, findReply, load, save } from "./consumer_state.js";
import type { EventsAndStreamsOfTurnlog as StoredEvent } from "./events.js";
import type { TokenEvent } from "./tokens.js";

const [address = "", file = ""] = process.argv.slice(2);
const state = load(file);
const { host, username, password } = new URL(address);
const connection = await connect({ servers: host, user: username, pass: decodeURIComponent(password) });

async function read(stream: string, subject: string, place: number): Promise<ConsumerMessages> {
  const consumer = await jetstream(connection).consumers.get(stream, {
    filter_subjects: [subject],
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: place + 1,
  });
  return consumer.consume();
}

/** Return the event, or null for a message that is no event of the session in its subject. */
function parse(subject: string, text: string): StoredEvent | null {
  const [, tenant, session] = subject.split(".");
  try {
    const event = JSON.parse(text) as StoredEvent;
    return event.tenant === tenant && event.subject === session ? event : null;
  } catch {
    return null;
  }
}

async function followEvents(): Promise<void> {
  for await (const message of await read("SESSIONS", "session.default.>", state.place)) {
    const event = parse(message.subject, message.string());
    if (event) addEvent(state, event, message.data);
    state.place = message.seq;
    save(file, state);
  }
}

async function followTokens(): Promise<void> {
  for await (const message of await read("TOKENS", "tokens.default.>", state.tokens_place)) {
    const [, , session = "", turn = ""] = message.subject.split(".");
    const event = message.json<TokenEvent>();
    const reply = findReply(state, session, turn);
    if (event.kind === "token") addToken(reply, event.kind, event.attempt, event.offset, event.text);
    else addToken(reply, event.kind, event.attempt);
    state.tokens_place = message.seq;
    save(file, state);
  }
}

await Promise.all([followEvents(), followTokens()]);

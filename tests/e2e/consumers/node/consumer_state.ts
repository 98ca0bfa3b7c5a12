/** What a consumer stores in one write: see consumer_state.py. */

import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

interface Reply {
  attempt: number;
  text: string;
  is_cut: boolean;
}

export interface State {
  place: number;
  tokens_place: number;
  count: number;
  digest: string;
  links: Record<string, { sequence: number; hash: string }>;
  replies: Record<string, Reply>;
  recorded: Record<string, string>;
}

export const hash = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");

export function load(file: string): State {
  const nothing = { place: 0, tokens_place: 0, count: 0, digest: "", links: {}, replies: {}, recorded: {} };
  const state: State = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : nothing;
  console.log(`${state.count} ${state.tokens_place}`);
  return state;
}

export function save(file: string, state: State): void {
  writeFileSync(`${file}.new`, JSON.stringify(state));
  renameSync(`${file}.new`, file);
  console.log(`${state.count} ${state.tokens_place}`);
}

interface Header {
  subject: string;
  sequence: number;
  type: string;
  prevhash?: string;
}

export function addEvent(state: State, event: Header, stored: Uint8Array | string): void {
  const before = state.links[event.subject];
  if (event.sequence !== (before?.sequence ?? 0) + 1 || event.prevhash !== before?.hash) {
    throw new Error(`event ${event.sequence} of ${event.subject} does not continue the one before`);
  }
  const digest = hash(stored);
  state.links[event.subject] = { sequence: event.sequence, hash: `sha256:${digest}` };
  state.count += 1;
  state.digest = hash(`${state.digest} ${event.subject} ${event.sequence} ${event.type} ${digest}`);
}

export function addToken(reply: Reply, kind: string, attempt: number, offset = 0, text = ""): void {
  if (attempt < reply.attempt) return;
  if (attempt > reply.attempt || kind === "attempt-reset") Object.assign(reply, { attempt, text: "" });
  if (kind !== "token") return;
  const points = [...reply.text];
  if (offset > points.length) reply.is_cut = true;
  else reply.text = points.slice(0, offset).join("") + text;
}

export function findReply(state: State, session: string, turn: number | string): Reply {
  return (state.replies[`${session}/${turn}`] ??= { attempt: 0, text: "", is_cut: false });
}

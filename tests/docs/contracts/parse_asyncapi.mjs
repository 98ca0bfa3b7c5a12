// Parses an AsyncAPI document with the official parser, and prints what it finds wrong, as JSON.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const [, , folder, file] = process.argv;
const { Parser } = createRequire(`${folder}/`)("@asyncapi/parser");
const { document, diagnostics } = await new Parser().parse(await readFile(file, "utf8"));
const faults = diagnostics.filter(({ severity }) => severity < 2);
console.log(JSON.stringify({
  channels: document?.channels().length ?? 0,
  messages: document?.components().messages().length ?? 0,
  faults: faults.map(({ message, path }) => `${path.join("/")}: ${message}`),
}));

// What a model reasoned is recorded as an object of the fields in which its provider sent it: a text, blocks
// with a signature, or items that only the provider can read.

const textFields = ["reasoning_content", "reasoning", "thinking"];
const blockFields = ["thinking_blocks", "reasoning_details", "reasoning_items", "content"];

const readBlocks = (blocks) => (Array.isArray(blocks) ? blocks : []).map(readBlock).join("");

function readBlock(block) {
  if (typeof block === "string") return block;
  return [block?.thinking, block?.text, block?.summary].map((text) => (typeof text === "string" ? text : readBlocks(text))).join("");
}

// Returns the part that can be read, and else the fields as they are.
export function readReasoning(fields) {
  const texts = textFields.map((name) => fields[name]).filter((text) => typeof text === "string");
  const blocks = blockFields.map((name) => readBlocks(fields[name]));
  return [...texts, ...blocks].find((text) => text) ?? JSON.stringify(fields);
}

// The colour of a component of prompts: the same in every view, whatever other components are beside it.

const HUES = { system_prompt: "hue-0", tools_context: "hue-2", rag_context: "hue-5", tool_rounds: "hue-4", media: "hue-6", history: "hue-history", query: "hue-input" };
const OTHER_HUES = ["hue-1", "hue-3"];

export const formatComponent = (name) => name.replace(/_tokens$/, "");

export function getComponentHue(name) {
  const component = formatComponent(name);
  const sum = [...component].reduce((all, character) => all + character.codePointAt(0), 0);
  return HUES[component] ?? OTHER_HUES[sum % OTHER_HUES.length];
}

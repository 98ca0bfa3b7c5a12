// Reads a blueprint folder for upload: only its UTF-8 text files.

const MAX_BYTES = 500_000;

export async function readBlueprintFolder(files) {
  const textFiles = [...files].filter((file) => file.size <= MAX_BYTES && !splitPath(file).some((step) => step.startsWith(".")));
  const entries = await Promise.all(textFiles.map(async (file) => [splitPath(file).slice(1).join("/"), decodeText(await file.arrayBuffer())]));
  return { blueprint: splitPath(files[0])[0], files: Object.fromEntries(entries.filter(([, text]) => text !== null)) };
}

const splitPath = (file) => file.webkitRelativePath.split("/");

function decodeText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

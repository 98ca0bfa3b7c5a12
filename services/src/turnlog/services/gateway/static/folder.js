// Reads a blueprint folder for upload: only its UTF-8 text files.

const MOST = 500_000;

export async function brought(files) {
  const ours = [...files].filter((file) => file.size <= MOST && !steps(file).some((step) => step.startsWith(".")));
  const texts = await Promise.all(ours.map(async (file) => [steps(file).slice(1).join("/"), decoded(await file.arrayBuffer())]));
  return { blueprint: steps(files[0])[0], files: Object.fromEntries(texts.filter(([, text]) => text !== null)) };
}

const steps = (file) => file.webkitRelativePath.split("/");

function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

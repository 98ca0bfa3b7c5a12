// A version of a blueprint as groups of calls name it: `support v3`.

export function splitVersion(name) {
  const [blueprint, version] = name.split(" v");
  return { blueprint, version: Number(version) };
}

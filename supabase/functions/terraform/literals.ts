/** Values of variables as the programs write them: literals of HCL. */

import { refuse } from "./documents.ts";

/** A quote that nothing closes takes the rest: to look from each one for its end would take for ever. */
const TOKENS = /"(?:[^"\\]|\\[^])*(?:"|\\?$)|[{}[\],=:\n]|[^\s{}[\],=:"]+/g;
const SCALAR = /^(true|false|null|-?\d.*)$/;

/** Reads a literal by turning it into JSON: names get quotes, and lines of an object get commas. */
export function literal(value: unknown): unknown {
  const text = String(value);
  const out: string[] = [];
  for (const token of text.match(TOKENS) ?? []) {
    const last = out.at(-1);
    if (token === "\n" || token === ",") {
      if (last !== undefined && !["{", "[", ","].includes(last)) out.push(",");
    } else if (token === "=") out.push(":");
    else if ("}]".includes(token)) {
      if (last === ",") out.pop();
      out.push(token);
    } else out.push('"{[:'.includes(token[0]) || SCALAR.test(token) ? token : JSON.stringify(token));
  }
  while (out.at(-1) === ",") out.pop();
  try {
    return JSON.parse(out.join(""), (_, each) =>
      typeof each === "string" ? each.replaceAll("$${", "${").replaceAll("%%{", "%{") : each);
  } catch {
    refuse(422, "The value of a variable is not a literal.", `It begins with: ${text.slice(0, 20)}`);
  }
}

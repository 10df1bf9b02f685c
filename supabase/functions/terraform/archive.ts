/** A packed folder, looked at before it is kept; the runner unpacks it under the same rules again. */

import { refuse } from "./documents.ts";

const MOST_PACKED = 25 * 1024 * 1024;
const MOST_BYTES = 512 * 1024 * 1024;
const MOST_FILES = 20_000;
const BLOCK = 512;
const TEXT = new TextDecoder();
/** Files, folders, links, and the headers that extend the next one. */
const KINDS = "\0" + "0257xgLK";

const field = (block: Uint8Array, from: number, length: number) =>
  TEXT.decode(block.subarray(from, from + length)).split("\0")[0];

/** Whether a path stays inside of the folder that it starts in. */
function isInside(path: string): boolean {
  let depth = 0;
  for (const part of path.split("/")) {
    if (part === "..") depth--;
    else if (part !== "" && part !== ".") depth++;
    if (depth < 0) return false;
  }
  return !path.startsWith("/");
}

function bad(detail: string): never {
  refuse(422, "The archive is not accepted.", detail);
}

/** Checks one header and returns the bytes that follow it. */
function checkHeader(block: Uint8Array): number {
  const name = [field(block, 345, 155), field(block, 0, 100)].filter(Boolean).join("/");
  const kind = String.fromCharCode(block[156]);
  const size = Number(`0o${field(block, 124, 12).trim() || "0"}`);
  const sum = block.reduce((all, byte, at) => all + (at >= 148 && at < 156 ? 32 : byte), 0);
  if (parseInt(field(block, 148, 8), 8) !== sum || Number.isNaN(size)) bad("It is not a tar archive.");
  if (!KINDS.includes(kind)) bad(`"${name}" is neither a file, a folder nor a link.`);
  const target = kind === "2" ? `${name.split("/").slice(0, -1).join("/")}/${field(block, 157, 100)}` : "";
  if (!isInside(name) || kind === "2" && (field(block, 157, 1) === "/" || !isInside(target.replace(/^\//, "")))) {
    bad(`"${name}" leads out of the folder.`);
  }
  return Math.ceil(size / BLOCK) * BLOCK;
}

/** Yields the unpacked archive in blocks, and gives up where it is too much. */
async function* blocks(body: Uint8Array<ArrayBuffer>): AsyncGenerator<Uint8Array> {
  const stream = new Blob([body]).stream().pipeThrough(new DecompressionStream("gzip"));
  let total = 0;
  let rest = new Uint8Array();
  for await (const part of stream) {
    total += part.length;
    if (total > MOST_BYTES) refuse(413, "The archive is too large.", `At most ${MOST_BYTES} bytes, unpacked.`);
    const all = new Uint8Array(rest.length + part.length);
    all.set(rest);
    all.set(part, rest.length);
    const whole = all.length - all.length % BLOCK;
    if (whole > 0) yield all.subarray(0, whole);
    rest = all.slice(whole);
  }
}

export async function checkArchive(body: Uint8Array<ArrayBuffer>): Promise<void> {
  if (body.length > MOST_PACKED) {
    refuse(413, "The archive is too large.", `At most ${MOST_PACKED} bytes, packed; see .terraformignore.`);
  }
  let skip = 0;
  let files = 0;
  try {
    for await (const part of blocks(body)) {
      let at = Math.min(skip, part.length);
      skip -= at;
      while (at < part.length) {
        const block = part.subarray(at, at + BLOCK);
        at += BLOCK;
        if (block.every((byte) => byte === 0)) continue;
        if (++files > MOST_FILES) refuse(413, "The archive is too large.", `At most ${MOST_FILES} files.`);
        skip = checkHeader(block);
        const jump = Math.min(skip, part.length - at);
        at += jump;
        skip -= jump;
      }
    }
  } catch (error) {
    if (error instanceof TypeError) bad("It is not packed with gzip, or it is cut off.");
    throw error;
  }
  if (skip > 0) bad("It is cut off.");
}

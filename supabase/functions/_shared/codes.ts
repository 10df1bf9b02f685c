/** Codes that people compare, and secrets that programs keep. */

/** Letters that are not mistaken for each other, and spell no words. */
const LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const CODE_LENGTH = 8;

/** Draws letters without favouring any: bytes beyond a multiple of their number are thrown away. */
export function drawCode(): string {
  const fair = 256 - 256 % LETTERS.length;
  let code = "";
  while (code.length < CODE_LENGTH) {
    const [byte] = crypto.getRandomValues(new Uint8Array(1));
    if (byte < fair) code += LETTERS[byte % LETTERS.length];
  }
  return code;
}

export const shownCode = (code: string) => `${code.slice(0, 4)}-${code.slice(4)}`;
export const drawSecret = () => crypto.getRandomValues(new Uint8Array(32)).toHex();

/** The SHA-256 of a text or of bytes, in hex. */
export async function digest(what: string | Uint8Array<ArrayBuffer>): Promise<string> {
  const bytes = typeof what === "string" ? new TextEncoder().encode(what) : what;
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

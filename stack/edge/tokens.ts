// Checks a bearer token as hosted does before a function with `verify_jwt = true` is called.

type Claims = { exp?: number };
type Header = { alg?: string; kid?: string };

function decode(part: string): Uint8Array<ArrayBuffer> {
  const text = atob(part.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function parse<T>(part: string): T {
  return JSON.parse(new TextDecoder().decode(decode(part)));
}

async function publicKey(jwk: JsonWebKey): Promise<CryptoKey> {
  const { kty, crv, x, y } = jwk;
  return await crypto.subtle.importKey("jwk", { kty, crv, x, y }, { name: "ECDSA", namedCurve: "P-256" }, false, ["verify"]);
}

async function sharedKey(secret: string): Promise<CryptoKey> {
  return await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

export class TokenChecker {
  constructor(private readonly jwks: JsonWebKey[], private readonly secret: string) {}

  /** Whether the header carries a token that we signed and that has not expired. */
  async accepts(authorization: string | null): Promise<boolean> {
    const token = authorization?.match(/^bearer\s+(\S+)$/i)?.[1];
    const parts = token?.split(".") ?? [];
    if (parts.length !== 3) return false;
    try {
      const header = parse<Header>(parts[0]);
      const claims = parse<Claims>(parts[1]);
      const isFresh = typeof claims.exp === "number" && claims.exp > Date.now() / 1000;
      return isFresh && await this.#isSigned(header, parts);
    } catch {
      return false;
    }
  }

  async #isSigned(header: Header, parts: string[]): Promise<boolean> {
    const body = new TextEncoder().encode(`${parts[0]}.${parts[1]}`);
    const signature = decode(parts[2]);
    if (header.alg === "HS256") {
      return await crypto.subtle.verify("HMAC", await sharedKey(this.secret), signature, body);
    }
    if (header.alg !== "ES256") return false;
    for (const jwk of this.jwks) {
      const algorithm = { name: "ECDSA", hash: "SHA-256" };
      if (await crypto.subtle.verify(algorithm, await publicKey(jwk), signature, body)) return true;
    }
    return false;
  }
}

// Checks a bearer token as hosted does before a function with `verify_jwt = true` is called.

import * as jose from "npm:jose@6.2.17";

export class TokenChecker {
  readonly #keys: ReturnType<typeof jose.createLocalJWKSet>;

  constructor(keys: jose.JWK[], private readonly issuer: string) {
    this.#keys = jose.createLocalJWKSet({ keys });
  }

  /** Whether the header carries a token that Auth signed for this project and that has not expired. */
  async accepts(authorization: string | null): Promise<boolean> {
    const token = authorization?.match(/^bearer\s+(\S+)$/i)?.[1];
    if (token === undefined) return false;
    const wanted = { algorithms: ["ES256"], issuer: this.issuer, audience: "authenticated", requiredClaims: ["exp"] };
    return await jose.jwtVerify(token, this.#keys, wanted).then(() => true, () => false);
  }
}

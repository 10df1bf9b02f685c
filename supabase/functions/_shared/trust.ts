/** The trust of a service account: which claims it is bound to, and whether given claims match. */

export type Trust = { issuer: string; audience: string; bound_claims: Record<string, unknown> };

/** Tells whether a claim has the bound value: equal, one of several, or contained in a list. */
function isBound(claim: unknown, bound: unknown): boolean {
  const allowed = (Array.isArray(bound) ? bound : [bound]).map(String);
  const actual = Array.isArray(claim) ? claim : [claim];
  return actual.some((value) =>
    ["string", "number", "boolean"].includes(typeof value) && allowed.includes(String(value))
  );
}

/**
 * Refuses claims that are not the bound ones. Everybody with an account at a public issuer has tokens of it: at least
 * one claim must say whose count.
 */
export function checkClaims(claims: Record<string, unknown>, trust: Trust): void {
  const bound = Object.entries(trust.bound_claims);
  if (bound.length === 0) throw new Error("no claim is bound");
  for (const [name, value] of bound) {
    if (!isBound(claims[name], value)) throw new Error(`claim ${name} is not the bound value`);
  }
}

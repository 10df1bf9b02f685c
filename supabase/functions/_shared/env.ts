/** A function's settings from its environment: hosted Supabase's names, and ours. */

/** Reads a variable; one that the sandbox does not grant counts as not set. */
export function read(name: string): string | undefined {
  try {
    return Deno.env.get(name) || undefined;
  } catch {
    return undefined;
  }
}

/** Reads a variable that the function cannot work without. */
export function need(name: string): string {
  const value = read(name);
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

/** Takes one key out of hosted's `{"default": "sb_…"}` maps. */
function fromMap(name: string): string | undefined {
  const text = read(name);
  if (text === undefined) return undefined;
  try {
    const keys = JSON.parse(text) as Record<string, string>;
    return keys.default ?? Object.values(keys)[0];
  } catch {
    return undefined;
  }
}

function firstOf(what: string, ...values: (string | undefined)[]): string {
  const found = values.find((value) => value !== undefined);
  if (found === undefined) throw new Error(`no ${what} is set`);
  return found;
}

/** The key that acts as service_role. */
export function secretKey(): string {
  return firstOf(
    "secret key",
    fromMap("SUPABASE_SECRET_KEYS"),
    read("SUPABASE_SECRET_KEY"),
    read("SUPABASE_SERVICE_ROLE_KEY"),
  );
}

/** The key that a runner may know. */
export function publishableKey(): string {
  return firstOf(
    "publishable key",
    fromMap("SUPABASE_PUBLISHABLE_KEYS"),
    read("SUPABASE_PUBLISHABLE_KEY"),
    read("SUPABASE_ANON_KEY"),
  );
}

/** The URL by which runners reach the project. */
export function publicUrl(): string {
  return read("RUNYARD_PUBLIC_URL") ?? need("SUPABASE_URL");
}

/** The address of the dashboard, if the project's settings name it. */
export function dashboardUrl(): string | undefined {
  return read("RUNYARD_DASHBOARD_URL")?.replace(/\/+$/, "");
}

/** The issuer that Auth writes into tokens. */
export function issuer(): string {
  return read("RUNYARD_JWT_ISSUER") ?? `${publicUrl()}/auth/v1`;
}

/** True on hosted Supabase, whose edge sets the address headers itself. */
export function isHosted(): boolean {
  return read("SB_REGION") !== undefined || read("SB_EXECUTION_ID") !== undefined;
}

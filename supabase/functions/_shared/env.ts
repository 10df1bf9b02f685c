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

/** The key that acts as service_role. */
export function secretKey(): string {
  return fromMap("SUPABASE_SECRET_KEYS") ?? read("SUPABASE_SECRET_KEY") ?? need("SUPABASE_SERVICE_ROLE_KEY");
}

/** The key that a runner may know. */
export function publishableKey(): string {
  return fromMap("SUPABASE_PUBLISHABLE_KEYS") ?? read("SUPABASE_PUBLISHABLE_KEY") ?? need("SUPABASE_ANON_KEY");
}

/** The URL by which runners reach the project. */
export const publicUrl = (): string => read("RUNYARD_PUBLIC_URL") ?? need("SUPABASE_URL");

/** The address of the dashboard, if the project's settings name it. */
export const dashboardUrl = (): string | undefined => read("RUNYARD_DASHBOARD_URL")?.replace(/\/+$/, "");

/** The issuer that Auth writes into tokens. */
export const issuer = (): string => read("RUNYARD_JWT_ISSUER") ?? `${publicUrl()}/auth/v1`;

/** True on hosted Supabase, whose edge sets the address headers itself. */
export const isHosted = (): boolean => (read("SB_REGION") ?? read("SB_EXECUTION_ID")) !== undefined;

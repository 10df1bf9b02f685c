/** Signs records of changes: each statement that waits gets a DSSE signature by the key that signs identities of jobs. */

import { call } from "../_shared/database.ts";
import { signBytes } from "./keys.ts";

const BATCH = 50;
const BUDGET_MILLISECONDS = 30_000;
const PAYLOAD_TYPE = "application/vnd.in-toto+json";

type Waiting = { id: number; statement: string };

/** Encodes a statement as DSSE signs it. No token begins like that, so neither is ever taken for the other. */
function encoded(statement: string): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder();
  const bytes = text.encode(statement).byteLength;
  return text.encode(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${bytes} ${statement}`);
}

async function signOne({ id, statement }: Waiting): Promise<void> {
  const { kid, signature } = await signBytes(encoded(statement));
  await call("sign_record", { p_record: id, p_key: kid, p_signature: signature });
}

/** Signs until none waits. One that could not be signed waits for the next call. */
export async function signRecords(): Promise<void> {
  const until = Date.now() + BUDGET_MILLISECONDS;
  while (Date.now() < until) {
    const waiting = await call<Waiting[]>("lease_records", { p_limit: BATCH });
    if (waiting.length === 0) return;
    await Promise.all(waiting.map(signOne));
  }
}

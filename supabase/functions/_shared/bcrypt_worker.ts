/** Runs in a thread of its own: compares one secret at a time with one hash. */

import bcrypt from "bcryptjs";

interface Scope {
  onmessage: ((event: MessageEvent<[secret: string, hash: string]>) => void) | null;
  postMessage(isSame: boolean): void;
}
const scope = self as unknown as Scope;

scope.onmessage = ({ data: [secret, hash] }) => {
  scope.postMessage(bcrypt.compareSync(secret, hash));
};

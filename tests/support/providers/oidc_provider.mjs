// A certified OpenID provider on a loopback port. It signs in whoever the file `who.json` names, without asking; a request
// to /control/rotate gives it another key. Arguments: the package's entry, port, folder, redirect address.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [entry, port, folder, callback] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(entry));
const jose = await import(pathToFileURL(createRequire(entry).resolve("jose")));
const people = () => JSON.parse(readFileSync(`${folder}/who.json`, "utf8"));

async function key() {
  const { privateKey } = await jose.generateKeyPair("RS256", { extractable: true });
  return { ...await jose.exportJWK(privateKey), use: "sig", alg: "RS256", kid: crypto.randomUUID() };
}

function build(keys) {
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [{
      client_id: "runyard",
      client_secret: "provider-secret",
      redirect_uris: [callback],
      grant_types: ["authorization_code", "refresh_token"],
    }],
    jwks: { keys },
    cookies: { keys: ["test"] },
    scopes: ["openid", "offline_access"],
    claims: { email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    issueRefreshToken: () => true,
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount(_, id) {
      const claims = people().accounts[id];
      return claims && { accountId: id, claims: () => ({ sub: id, ...claims }) };
    },
    async loadExistingGrant(ctx) {
      const grant = new ctx.oidc.provider.Grant({ clientId: "runyard", accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope("openid email profile groups offline_access");
      await grant.save();
      return grant;
    },
  });
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith("/interaction/")) return await next();
    const { now } = people();
    const result = now ? { login: { accountId: now, remember: false } } : { error: "access_denied" };
    await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: false });
    ctx.respond = false;
  });
  return provider.callback();
}

let answer = build([await key()]);
createServer(async (request, response) => {
  if (request.url === "/control/rotate") {
    answer = build([await key()]);
    response.end("{}");
  } else answer(request, response);
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));

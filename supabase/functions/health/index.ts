// Says that the edge functions run at all; the stack's health check asks for it.
Deno.serve(() => Response.json({ status: "ok" }, { headers: { "cache-control": "no-store" } }));

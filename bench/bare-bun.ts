/** A bare `Bun.serve` that answers a constant 302: what the click service is measured against. */
Bun.serve({
  port: Number(process.argv[2]),
  fetch: () =>
    new Response(null, {
      status: 302,
      headers: { Location: 'https://example.com/landing', 'Cache-Control': 'no-store' },
    }),
});

/**
 * What any click service on `Bun.serve` has to ask of it, and nothing else: the URL, the headers
 * that tell who clicks, the peer's address, and an answer that comes later, when a write is done.
 */
const HEADERS = ['user-agent', 'sec-ch-ua-mobile', 'sec-purpose', 'referer'] as const;
let waiting: (() => void)[] = [];
let seen = 0;

function answerAll(): void {
  const due = waiting;
  waiting = [];
  for (const answer of due) answer();
}

Bun.serve({
  port: Number(process.argv[2]),
  fetch(req, server) {
    seen += req.url.length + (server.requestIP(req)?.address.length ?? 0);
    for (const name of HEADERS) seen += req.headers.get(name)?.length ?? 0;
    return new Promise<Response>((resolve) => {
      const headers = { Location: `https://example.com/${seen}`, 'Cache-Control': 'no-store' };
      const response = new Response(null, { status: 302, headers });
      if (waiting.push(() => resolve(response)) === 1) setImmediate(answerAll);
    });
  },
});

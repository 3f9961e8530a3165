/** A bare `node:http` server that answers a constant 302. */
import { createServer } from 'node:http';

createServer((_request, response) => {
  response.writeHead(302, {
    Location: 'https://example.com/landing',
    'Cache-Control': 'no-store',
  });
  response.end();
}).listen(Number(process.argv[2]));

/** A receiver of webhooks behind a real port, that answers as the test says. */
import { type AddressInfo, createServer } from 'node:net';

export interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type Answer = (received: Received, nth: number) => Response | Promise<Response>;

export class Receiver {
  readonly received: Received[] = [];
  answer: Answer = () => new Response('ok');
  readonly #server: Bun.Server<undefined>;
  #waiters: (() => void)[] = [];

  constructor() {
    this.#server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const received = {
          path: new URL(request.url).pathname,
          headers: Object.fromEntries(request.headers),
          body: await request.text(),
        };
        this.received.push(received);
        for (const wake of this.#waiters.splice(0)) wake();
        return this.answer(received, this.received.length);
      },
    });
  }

  url(path = '/hook'): string {
    return `http://127.0.0.1:${this.#server.port}${path}`;
  }

  /** Resolves when so many requests have arrived. */
  async arrived(count: number): Promise<void> {
    while (this.received.length < count) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  bodies(): { id: string; type: string; created_at: string; data: Record<string, unknown> }[] {
    return this.received.map(({ body }) => JSON.parse(body));
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }
}

/** A port that takes connections and sends these bytes to each, whatever it asks. */
export async function rawReceiver(bytes: string): Promise<{ url: string; close: () => void }> {
  const sockets = new Set<{ destroy: () => void }>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.write(bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

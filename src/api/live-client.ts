/**
 * One live stream: the bytes of `text/event-stream`, and what its client has not taken yet.
 *
 * At most one event waits here, the newest; one chunk more lies in the stream, and what the system's
 * socket buffer holds. A client that does not read costs no more, however long it does not.
 */
export interface Watcher {
  readonly tokenId: string;
  /** Asked now and then; false ends the stream. */
  readonly isAllowed: () => Promise<boolean>;
}

/** How long a client waits before it connects again. */
const RETRY_MS = 2_000;
const ENCODER = new TextEncoder();

export class LiveClient {
  readonly watcher: Watcher;
  readonly openedMs: number;
  readonly stream: ReadableStream<Uint8Array>;
  checkedMs: number;
  beatMs: number;
  /** Of the event that was offered last. */
  toldVersion = 0;
  toldAsOfMs = -1;
  readonly #onEnd: () => void;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #waiting: string | null = null;
  #isOpen = true;

  constructor(options: { watcher: Watcher; openedMs: number; onEnd: () => void }) {
    this.watcher = options.watcher;
    this.openedMs = options.openedMs;
    this.checkedMs = options.openedMs;
    this.beatMs = options.openedMs;
    this.#onEnd = options.onEnd;
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
          this.#send(`retry: ${RETRY_MS}\n\n`);
        },
        pull: () => this.#sendWaiting(),
        cancel: () => this.leave(),
      },
      { highWaterMark: 1 },
    );
  }

  /** The event is sent as soon as there is room; one that waited for room is forgotten. */
  offer(event: string, data: object): void {
    this.#waiting = `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
    this.#sendWaiting();
  }

  /** A comment, so that nothing on the way takes the connection for dead. */
  beat(): void {
    if (this.#hasRoom()) this.#send(': \n\n');
  }

  /** Ends the stream from our side; the client is told when to come again. */
  end(): void {
    if (!this.#isOpen) return;
    if (this.#hasRoom()) this.#send(`retry: ${RETRY_MS}\n\n`);
    this.leave();
    this.#controller.close();
  }

  /** The client has gone. */
  leave(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#waiting = null;
    this.#onEnd();
  }

  #sendWaiting(): void {
    if (this.#waiting === null || !this.#hasRoom()) return;
    const text = this.#waiting;
    this.#waiting = null;
    this.#send(text);
  }

  #hasRoom(): boolean {
    return this.#isOpen && (this.#controller.desiredSize ?? 0) > 0;
  }

  #send(text: string): void {
    this.#controller.enqueue(ENCODER.encode(text));
  }
}

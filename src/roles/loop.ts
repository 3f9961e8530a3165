/** A loop that runs one piece of work again and again, never twice at once, until it is stopped. */
export class Loop {
  readonly name: string;
  readonly #intervalMs: number;
  readonly #work: () => Promise<void>;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #running: Promise<void> = Promise.resolve();
  #stopped = true;

  constructor(name: string, intervalMs: number, work: () => Promise<void>) {
    this.name = name;
    this.#intervalMs = intervalMs;
    this.#work = work;
  }

  /** A failed turn is reported and the next one comes as usual: the work says what state it is in. */
  start(onError: (error: unknown) => void): void {
    this.#stopped = false;
    const turn = (): void => {
      this.#running = this.#work()
        .catch(onError)
        .then(() => {
          if (!this.#stopped) this.#timer = setTimeout(turn, this.#intervalMs);
        });
    };
    turn();
  }

  /** Lets the turn in progress finish. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#running;
  }
}

/**
 * Work on one store by several "processes" in one test, of which one goes on at a time.
 *
 * An actor stops at every call of its store, before it takes place and after it has: as a process that
 * is stopped there for any length of time, whose answer is old when it wakes up. A listing is taken whole
 * at one moment. What must be survived: every order in which the actors may go on, and the death of
 * any of them where it stands.
 */
import type { ListOptions, ObjectInfo, ObjectStore } from '../../src/archive/port.ts';
import { Crash } from './archive-fixtures.ts';

interface Gate {
  open(): void;
  fail(error: Error): void;
}

export class Actor {
  readonly store: ObjectStore;
  /** How many gates it has come to. */
  gates = 0;
  #gate: Gate | null = null;
  #arrive: () => void = () => {};
  #failure: Error | null = null;
  #isAtWork = false;
  #isDead = false;
  /** Calls that the actor makes side by side take turns: it stands at one gate. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(inner: ObjectStore) {
    this.store = {
      putIfAbsent: (name, bytes) => this.#gated(() => inner.putIfAbsent(name, bytes)),
      get: (name) => this.#gated(() => inner.get(name)),
      remove: (name) => this.#gated(() => inner.remove(name)),
      list: (prefix, options) => this.#listing(inner, prefix, options),
    };
  }

  get isAtWork(): boolean {
    return this.#isAtWork;
  }

  /** Begins a piece of work and runs to its first gate. */
  begin(work: () => Promise<unknown>): Promise<void> {
    if (this.#isAtWork) throw new Error('it is still at work');
    this.#isAtWork = true;
    this.#isDead = false;
    return this.#toNextStop(() => {
      const end = (error: unknown) => {
        this.#isAtWork = false;
        if (error !== null && !(error instanceof Crash)) this.#failure = error as Error;
        this.#arrive();
      };
      work().then(() => end(null), end);
    });
  }

  /** Goes on to the next gate, or to the end of its work; throws what the work has thrown. */
  go(): Promise<void> {
    const gate = this.#gate;
    this.#gate = null;
    return this.#toNextStop(() => gate?.open());
  }

  /** Dies where it stands: nothing takes place any more. */
  die(): Promise<void> {
    this.#isDead = true;
    const gate = this.#gate;
    this.#gate = null;
    return this.#toNextStop(() => gate?.fail(new Crash('the process died')));
  }

  async finish(): Promise<void> {
    while (this.#isAtWork) await this.go();
  }

  async #toNextStop(start: () => void): Promise<void> {
    const arrived = new Promise<void>((resolve) => {
      this.#arrive = resolve;
    });
    start();
    await arrived;
    const failure = this.#failure;
    this.#failure = null;
    if (failure !== null) throw failure;
  }

  async #stop(): Promise<void> {
    if (this.#isDead) throw new Crash('the process is dead');
    this.gates++;
    await new Promise<void>((resolve, reject) => {
      this.#gate = { open: resolve, fail: reject };
      this.#arrive();
    });
  }

  #gated<T>(call: () => Promise<T>): Promise<T> {
    const pass = async () => {
      await this.#stop();
      const outcome = await call().then(
        (value) => () => value,
        (error) => () => {
          throw error;
        },
      );
      await this.#stop();
      return outcome();
    };
    const mine = this.#turn.then(pass, pass);
    this.#turn = mine;
    return mine;
  }

  async *#listing(
    inner: ObjectStore,
    prefix: string,
    options?: ListOptions,
  ): AsyncGenerator<ObjectInfo> {
    yield* await this.#gated(async () => {
      const infos: ObjectInfo[] = [];
      for await (const info of inner.list(prefix, options)) infos.push(info);
      return infos;
    });
  }
}

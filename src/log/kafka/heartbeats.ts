/**
 * Keeps a seat in a group: tells the coordinator that we are here, and us what it says.
 *
 * B1 A session runs from when the last beat that was answered was sent: by the time we take ourselves for
 *    alive, the coordinator does too.
 */
import { monotonicMs } from '../../platform/clock.ts';
import type { Coordinator } from './coordinator.ts';
import { GROUP_ERROR, heartbeat, type Seat } from './group-protocol.ts';

/**
 * `rebalance`: partitions are shared out anew, and everybody is waited for. `gone`: the group has gone
 * on without us. `fenced`: another process has our instance name. `silent`: no answer for a session's
 * time, so the group may have gone on. `heard`: it has not.
 */
export type BeatNews = 'rebalance' | 'gone' | 'fenced' | 'silent' | 'heard';

export interface HeartbeatOptions {
  readonly coordinator: Coordinator;
  readonly seat: Seat;
  /** On the monotonic clock: the coordinator heard from us then, or later. */
  readonly heardMs: number;
  readonly intervalMs: number;
  readonly sessionTimeoutMs: number;
  readonly onNews: (news: BeatNews) => void;
}

export class Heartbeats {
  readonly #options: HeartbeatOptions;
  #beatTimer: ReturnType<typeof setTimeout>;
  #sessionTimer: ReturnType<typeof setTimeout> | null = null;
  #silent = false;
  #stopped = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#beatTimer = setTimeout(() => void this.#beat(), options.intervalMs);
    this.#sessionRunsFrom(options.heardMs);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#beatTimer);
    if (this.#sessionTimer !== null) clearTimeout(this.#sessionTimer);
  }

  async #beat(): Promise<void> {
    const { coordinator, seat, intervalMs } = this.#options;
    const sentMs = monotonicMs();
    try {
      const { code } = await coordinator.ask((connection) => heartbeat(connection, seat));
      if (!this.#stopped) this.#hear(code, sentMs);
    } catch {
      // The next beat finds the coordinator anew; the session's timer says when it was too long.
    }
    if (!this.#stopped) this.#beatTimer = setTimeout(() => void this.#beat(), intervalMs);
  }

  #hear(code: number, sentMs: number): void {
    const { onNews } = this.#options;
    switch (code) {
      case GROUP_ERROR.none:
      case GROUP_ERROR.rebalanceInProgress:
        this.#sessionRunsFrom(sentMs);
        if (this.#silent) onNews('heard');
        this.#silent = false;
        if (code !== GROUP_ERROR.none) onNews('rebalance');
        return;
      case GROUP_ERROR.illegalGeneration:
      case GROUP_ERROR.unknownMember:
        onNews('gone');
        return;
      case GROUP_ERROR.instanceFenced:
        onNews('fenced');
        return;
      default:
      // Something passing at the broker: as if it had not answered.
    }
  }

  /** B1. */
  #sessionRunsFrom(heardMs: number): void {
    if (this.#sessionTimer !== null) clearTimeout(this.#sessionTimer);
    const leftMs = heardMs + this.#options.sessionTimeoutMs - monotonicMs();
    this.#sessionTimer = setTimeout(
      () => {
        this.#silent = true;
        this.#options.onNews('silent');
      },
      Math.max(0, leftMs),
    );
  }
}

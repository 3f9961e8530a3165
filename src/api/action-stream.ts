/**
 * A long action as an answer of lines: `{"progress":…}` as it goes, then one `{"result":…}` or
 * `{"error":…}`. An answer without that last line was cut off, and says nothing about the outcome.
 *
 * The action goes on when the caller goes away. A blank line now and then keeps servers and proxies
 * from closing a connection on which an action is merely slow.
 */
import type { Progress } from './admin-port.ts';
import { type ErrorLog, toProblem } from './problem.ts';

const HEARTBEAT_MS = 4_000;

export function streamAction(
  run: (progress: Progress) => Promise<object>,
  log: ErrorLog,
  doing: string,
): Response {
  const encoder = new TextEncoder();
  let open = true;
  let heartbeat: ReturnType<typeof setInterval> | undefined;
  const stream = new ReadableStream<Uint8Array>(
    {
      async start(controller) {
        const send = (text: string): void => {
          if (open) controller.enqueue(encoder.encode(text));
        };
        // A caller that does not read loses progress, never memory of ours, and never the last line.
        const sendIfRead = (text: string): void => {
          if ((controller.desiredSize ?? 0) > 0) send(text);
        };
        heartbeat = setInterval(() => sendIfRead('\n'), HEARTBEAT_MS);
        const progress: Progress = (message, done, total) =>
          sendIfRead(`${JSON.stringify({ progress: { message, done, total } })}\n`);
        try {
          send(`${JSON.stringify({ result: await run(progress) })}\n`);
        } catch (error) {
          const { status, code, detail, more } = toProblem(error, log, doing);
          const kind = status === 503 ? 'retry' : 'refuse';
          send(`${JSON.stringify({ error: { code, kind, message: detail, hint: more.hint } })}\n`);
        } finally {
          clearInterval(heartbeat);
        }
        if (open) controller.close();
      },
      cancel() {
        open = false;
        clearInterval(heartbeat);
      },
    },
    { highWaterMark: 64 },
  );
  return new Response(stream, { headers: { 'Content-Type': 'application/x-ndjson' } });
}

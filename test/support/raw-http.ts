import { connect } from 'node:net';

export interface RawAnswer {
  /** 0 when the server closed without an answer. */
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  readonly text: string;
}

/** Sends a request byte by byte as given, so that no client library tidies it up on the way. */
export function rawRequest(
  port: number,
  target: string,
  options: { method?: string; host?: string; headers?: readonly string[] } = {},
): Promise<RawAnswer> {
  const lines = [
    `${options.method ?? 'GET'} ${target} HTTP/1.1`,
    `Host: ${options.host ?? 't.example'}`,
    'Connection: close',
    ...(options.headers ?? []),
  ];
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'utf8'));
    });
    socket.on('data', (chunk) => chunks.push(Buffer.from(chunk)));
    socket.on('close', () => resolve(parseAnswer(Buffer.concat(chunks).toString('latin1'))));
    socket.on('error', (error) => (chunks.length > 0 ? undefined : reject(error)));
    socket.setTimeout(2_000, () => socket.destroy());
  });
}

function parseAnswer(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = text.slice(0, Math.max(end, 0)).split('\r\n');
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  return {
    status: Number(statusLine.split(' ')[1] ?? 0),
    headers,
    body: end < 0 ? '' : text.slice(end + 4),
    text,
  };
}

/** Log lines as JSON on standard error, one event a line. Answers and reports go to standard output. */
import pino from 'pino';

export type Logger = pino.Logger;

export function createLogger(level: string, role: string): Logger {
  return pino(
    {
      level,
      base: { role },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    pino.destination({ dest: 2, sync: true }),
  );
}

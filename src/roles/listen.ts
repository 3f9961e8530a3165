/** Opens a port, and says in plain words why it could not. */
import { LedgerError } from '../platform/errors.ts';

export function listen<T>(what: string, port: number, open: () => T): T {
  try {
    return open();
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code === 'EADDRINUSE') {
      throw new LedgerError('port_in_use', `port ${port} is in use`, {
        hint: `Choose another with --${what}-port, or stop what listens there.`,
        cause: error,
      });
    }
    if (code === 'EACCES') {
      throw new LedgerError('port_forbidden', `port ${port} may not be opened by this user`, {
        hint: `Choose one above 1023 with --${what}-port.`,
        cause: error,
      });
    }
    throw error;
  }
}

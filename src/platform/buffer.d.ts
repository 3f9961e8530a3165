/** Fast string methods that Bun's (and Node's) Buffer has and its type declarations leave out. */
declare global {
  interface Buffer {
    latin1Slice(start: number, end: number): string;
    utf8Slice(start: number, end: number): string;
    /** Returns the bytes written. */
    latin1Write(text: string, at: number, length?: number): number;
    utf8Write(text: string, at: number, length?: number): number;
  }
}

export {};

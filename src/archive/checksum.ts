/** Lower-case hex SHA-256, computed off the event loop: objects are tens of megabytes. */
export async function sha256Hex(bytes: Uint8Array): Promise<string> {
  const whole = new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
  return Buffer.from(await crypto.subtle.digest('SHA-256', whole)).toString('hex');
}

#!/bin/sh
# In the image, which has no curl: exit code 0 when the page at the given address answers with 2xx.
exec /app/node_modules/bun/bin/bun.exe -e '
  const limit = { signal: AbortSignal.timeout(4_000) };
  const isOk = await fetch(process.argv.at(-1), limit).then((page) => page.ok, () => false);
  process.exit(isOk ? 0 : 1);
' "$1"

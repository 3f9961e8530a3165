#!/bin/sh
# In the image: no process of Node in between, so that signals reach the role and memory is its own.
exec /app/node_modules/bun/bin/bun.exe /app/src/main.ts "$@"

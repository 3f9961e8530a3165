/**
 * The one HTML page of the console, and the headers that say what it may do: run and load what this
 * server serves beside it, and nothing else. No text of a user ever gets into this page.
 */

const ICON = [
  "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E",
  "%3Crect width='32' height='32' rx='7' fill='%230f766e'/%3E",
  "%3Cpath d='M8 23V15M14 23V9M20 23v-6' stroke='white' stroke-width='3.4' stroke-linecap='round'/%3E",
  "%3Ccircle cx='25' cy='11' r='2.4' fill='white'/%3E%3C/svg%3E",
].join('');

export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
};

/** `theme` runs before the first paint, so that a dark page never flashes white. */
export function consolePage(names: { app: string; theme: string; style: string }): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>ClickLedger</title>
<link rel="icon" href="data:image/svg+xml,${ICON}">
<script src="${names.theme}"></script>
<link rel="stylesheet" href="${names.style}">
<script type="module" src="${names.app}"></script>
</head>
<body>
<div id="app"></div>
<noscript>This console needs JavaScript. The same numbers are in the API: see /docs.</noscript>
</body>
</html>
`;
}

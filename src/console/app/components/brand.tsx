export function Brand() {
  return (
    <span class="brand">
      <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
        <rect width="32" height="32" rx="7" class="brand-ground" />
        <path d="M8 23V15M14 23V9M20 23v-6" class="brand-bars" />
        <circle cx="25" cy="11" r="2.4" class="brand-dot" />
      </svg>
      <span class="brand-name">ClickLedger</span>
    </span>
  );
}

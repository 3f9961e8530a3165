import { Button } from './button.tsx';

interface PagerProps {
  readonly page: number;
  readonly hasNext: boolean;
  readonly onPrevious: () => void;
  readonly onNext: () => void;
}

export function Pager({ page, hasNext, onPrevious, onNext }: PagerProps) {
  if (page === 1 && !hasNext) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <Button disabled={page === 1} onClick={onPrevious}>
        Previous
      </Button>
      <span aria-live="polite">Page {page}</span>
      <Button disabled={!hasNext} onClick={onNext}>
        Next
      </Button>
    </nav>
  );
}

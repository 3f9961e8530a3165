/** What the numbers are narrowed down to; each can be taken away again. */
import { Button } from '../../components/button.tsx';
import { countryText } from '../../format.ts';
import { useNavigation } from '../../state/context.ts';
import {
  DIMENSION_NAMES,
  DIMENSIONS,
  type Filters,
  isFiltered,
  toggled,
} from '../../state/filters.ts';

export function FilterChips({ filters }: { filters: Filters }) {
  const { setQuery } = useNavigation();
  if (!isFiltered(filters)) {
    return (
      <p class="chips chips-none">All clicks. Choose a row in a table below to narrow down.</p>
    );
  }
  const clear = Object.fromEntries(DIMENSION_NAMES.map((name) => [name, undefined]));
  return (
    <section class="chips" aria-label="Filters">
      {DIMENSION_NAMES.flatMap((name) =>
        filters[name].map((value) => (
          <Chip
            key={`${name} ${value}`}
            name={DIMENSIONS[name].label}
            value={name === 'country' ? countryText(value) : value}
            onRemove={() => setQuery(toggled(filters, name, value))}
          />
        )),
      )}
      <Button kind="quiet" onClick={() => setQuery(clear)}>
        Clear all
      </Button>
    </section>
  );
}

interface ChipProps {
  readonly name: string;
  readonly value: string;
  readonly onRemove: () => void;
}

function Chip({ name, value, onRemove }: ChipProps) {
  const label = `${name} ${value}, remove this filter`;
  return (
    <button type="button" class="chip" aria-label={label} onClick={onRemove}>
      <span class="chip-name">{name}</span>
      {value}
      <span aria-hidden="true">✕</span>
    </button>
  );
}

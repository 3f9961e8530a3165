/** Which stretch of time, cut how, in whose clock. */
import { useState } from 'preact/hooks';
import { Button } from '../../components/button.tsx';
import { type Choice, Form, SelectField, TextField } from '../../components/field.tsx';
import { ZoneField } from '../../components/zone-field.tsx';
import { capital } from '../../format.ts';
import { useApp, useNavigation, useScope } from '../../state/context.ts';
import {
  addDays,
  CUSTOM,
  fits,
  GRANULARITIES,
  granularityOf,
  hoursOf,
  isTimeZone,
  localDate,
  PRESETS,
  presetOf,
} from '../../state/range.ts';

const CHOICES: readonly Choice[] = [
  ...PRESETS.map(({ key, label }) => ({ value: key, label })),
  { value: CUSTOM, label: 'Custom range…' },
];

interface RangeBarProps {
  /** Whether what is shown is cut into buckets. */
  readonly isCut?: boolean;
}

export function RangeBar({ isCut = true }: RangeBarProps) {
  const { route, clock } = useApp();
  const { zone } = useScope();
  const { setQuery } = useNavigation();
  const preset = presetOf(route.query);
  const choose = (value: string): void => {
    const today = localDate(clock(), isTimeZone(zone) ? zone : 'UTC');
    const yesterday = { from: `${addDays(today, -1)}T00:00`, to: `${today}T00:00` };
    const dates = value === CUSTOM ? yesterday : { from: undefined, to: undefined };
    setQuery({ range: value, ...dates });
  };
  return (
    <section class="range-bar" aria-label="Range">
      <SelectField label="Range" value={preset} choices={CHOICES} onValue={choose} />
      {isCut && <BucketField />}
      <ZoneField zone={zone} onZone={(tz) => setQuery({ tz })} />
      {preset === CUSTOM && (
        <CustomRange
          key={`${route.query.from} ${route.query.to}`}
          from={route.query.from!}
          to={route.query.to!}
        />
      )}
    </section>
  );
}

function BucketField() {
  const { route } = useApp();
  const { setQuery } = useNavigation();
  const hours = hoursOf(route.query);
  const used = granularityOf(route.query);
  const isChosen = route.query.by === used;
  const choices: Choice[] = [
    { value: 'auto', label: isChosen ? 'Auto' : `Auto (${used})` },
    ...GRANULARITIES.map((each) => ({
      value: each,
      label: capital(each),
      disabled: !fits(each, hours),
    })),
  ];
  return (
    <SelectField
      label="Buckets"
      value={isChosen ? used : 'auto'}
      choices={choices}
      onValue={(value) => setQuery({ by: value === 'auto' ? undefined : value })}
    />
  );
}

function CustomRange(props: { from: string; to: string }) {
  const { setQuery } = useNavigation();
  const [from, setFrom] = useState(props.from);
  const [to, setTo] = useState(props.to);
  return (
    <Form
      class="custom-range"
      label="Custom range"
      onSubmit={() => from !== '' && to !== '' && setQuery({ range: CUSTOM, from, to })}
    >
      <TextField label="From" type="datetime-local" value={from} onValue={setFrom} required />
      <TextField
        label="To (not included)"
        type="datetime-local"
        value={to}
        onValue={setTo}
        required
      />
      <Button type="submit" kind="primary">
        Apply
      </Button>
    </Form>
  );
}

import { zoneText } from '../format.ts';
import { browserZone } from '../state/context.ts';
import { isTimeZone } from '../state/range.ts';
import { type Choice, SelectField } from './field.tsx';

interface ZoneFieldProps {
  readonly zone: string;
  readonly onZone: (zone: string) => void;
}

/** Every IANA zone that the browser knows; the browser's own and UTC come first. */
export function ZoneField({ zone, onZone }: ZoneFieldProps) {
  return (
    <SelectField label="Time zone" value={zone} choices={choicesWith(zone)} onValue={onZone} />
  );
}

/** Browsers list some zones under a name that the zone had long ago; people look for today's. */
const RENAMED: Readonly<Record<string, string>> = {
  'America/Buenos_Aires': 'America/Argentina/Buenos_Aires',
  'America/Godthab': 'America/Nuuk',
  'Asia/Calcutta': 'Asia/Kolkata',
  'Asia/Katmandu': 'Asia/Kathmandu',
  'Asia/Rangoon': 'Asia/Yangon',
  'Asia/Saigon': 'Asia/Ho_Chi_Minh',
  'Atlantic/Faeroe': 'Atlantic/Faroe',
  'Europe/Kiev': 'Europe/Kyiv',
};

function todaysName(zone: string): string {
  const name = RENAMED[zone];
  return name !== undefined && isTimeZone(name) ? name : zone;
}

function choicesWith(zone: string): Choice[] {
  const all = Intl.supportedValuesOf('timeZone').map(todaysName).sort();
  const zones = [...new Set([browserZone(), 'UTC', zone, ...all])];
  return zones.map((value) => ({ value, label: zoneText(value) }));
}

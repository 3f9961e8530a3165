import { useState } from 'preact/hooks';
import type { Params } from '../../api/client.ts';
import { saveFile, wholeCsv } from '../../api/download.ts';
import type { Dimension } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { CheckField, Form } from '../../components/field.tsx';
import { ErrorNote } from '../../components/states.tsx';
import { useApp } from '../../state/context.ts';
import { DIMENSION_NAMES, DIMENSIONS } from '../../state/filters.ts';
import type { Granularity } from '../../state/range.ts';
import { useAct } from '../../state/use-act.ts';

interface CsvDialogProps {
  readonly params: Params;
  readonly granularity: Granularity;
  readonly onClose: () => void;
}

export function CsvDialog({ params, granularity, onClose }: CsvDialogProps) {
  const { api } = useApp();
  const act = useAct();
  const [groups, setGroups] = useState<readonly Dimension[]>(['ad']);
  const toggle = (name: Dimension, isOn: boolean): void =>
    setGroups(isOn ? [...groups, name] : groups.filter((each) => each !== name));
  const save = (): Promise<void> =>
    act.run(async () => {
      const group_by = groups.length === 0 ? 'none' : groups;
      saveFile('clicks.csv', await wholeCsv(api, { ...params, granularity, group_by }));
      onClose();
    });
  return (
    <Dialog title="Download CSV" onClose={onClose}>
      <Form onSubmit={() => void save()}>
        <p>
          The range and the filters of this page, one row for each {granularity} and for each of:
        </p>
        <fieldset class="checks">
          <legend class="visually-hidden">Columns</legend>
          {DIMENSION_NAMES.map((name) => (
            <CheckField
              key={name}
              label={DIMENSIONS[name].label}
              checked={groups.includes(name)}
              onChecked={(isOn) => toggle(name, isOn)}
            />
          ))}
        </fieldset>
        {act.error !== undefined && <ErrorNote error={act.error} />}
        <footer class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={act.busy}>
            Download
          </Button>
        </footer>
      </Form>
    </Dialog>
  );
}

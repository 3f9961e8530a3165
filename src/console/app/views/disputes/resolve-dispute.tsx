import { useState } from 'preact/hooks';
import { ApiError } from '../../api/problem.ts';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Form, SelectField, TextArea } from '../../components/field.tsx';
import { ErrorNote } from '../../components/states.tsx';
import { useApp } from '../../state/context.ts';
import { useAct } from '../../state/use-act.ts';

interface ResolveProps {
  readonly path: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

interface Verdict {
  readonly impression_id: string;
  readonly valid: boolean;
  readonly reason: string;
}

const RESOLUTIONS = [
  { value: 'upheld', label: 'Upheld: the advertiser is right' },
  { value: 'rejected', label: 'Rejected: the clicks stand' },
];

/** One impression id a line, with a reason behind it. */
function verdictsOf(text: string, fallback: string): Verdict[] {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter(Boolean).map((line) => {
    const [impression, ...reason] = line.split(/[\s,]+/);
    const why = reason.join(' ') || fallback.trim();
    if (impression === undefined || why === '') {
      throw new ApiError(0, 'verdict_invalid', 'Every verdict needs a reason.', 'Write a note.');
    }
    return { impression_id: impression, valid: false, reason: why };
  });
}

export function ResolveDispute({ path, onDone, onClose }: ResolveProps) {
  const { api } = useApp();
  const act = useAct();
  const [resolution, setResolution] = useState('upheld');
  const [note, setNote] = useState('');
  const [invalid, setInvalid] = useState('');
  const isUpheld = resolution === 'upheld';
  const resolve = (): Promise<void> =>
    act.run(async () => {
      const verdicts = isUpheld ? verdictsOf(invalid, note) : [];
      const more = verdicts.length === 0 ? {} : { verdicts };
      await api.post(`${path}/resolve`, { resolution, note, ...more });
      onDone();
      onClose();
    });
  return (
    <Dialog title="Resolve this dispute" onClose={onClose}>
      <Form onSubmit={() => void resolve()}>
        <SelectField
          label="Resolution"
          value={resolution}
          choices={RESOLUTIONS}
          onValue={setResolution}
        />
        <TextArea
          label="Note for the advertiser"
          value={note}
          onValue={setNote}
          maxLength={2_000}
          required
        />
        {isUpheld && (
          <TextArea
            label="Impressions that are invalid"
            hint="One id a line, a reason may follow it. Their hours are counted again and restated."
            value={invalid}
            onValue={setInvalid}
          />
        )}
        {act.error !== undefined && <ErrorNote error={act.error} />}
        <footer class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={act.busy}>
            Resolve
          </Button>
        </footer>
      </Form>
    </Dialog>
  );
}

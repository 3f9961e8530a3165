import { useState } from 'preact/hooks';
import type { Dispute } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Form, TextArea, TextField } from '../../components/field.tsx';
import { ErrorNote } from '../../components/states.tsx';
import { zoneText } from '../../format.ts';
import { useApp, useNavigation, useScope } from '../../state/context.ts';
import { addDays, CUSTOM, localDate, presetOf } from '../../state/range.ts';
import { useAct } from '../../state/use-act.ts';

const MAX_REASON = 2_000;

export function NewDispute({ onClose }: { onClose: () => void }) {
  const { api, clock, route } = useApp();
  const { zone, advertiserParams } = useScope();
  const { go } = useNavigation();
  const act = useAct();
  const today = localDate(clock(), zone);
  const isCustom = presetOf(route.query) === CUSTOM;
  const [adId, setAdId] = useState(route.query.ad ?? '');
  const [from, setFrom] = useState(isCustom ? route.query.from! : `${today}T00:00`);
  const [to, setTo] = useState(isCustom ? route.query.to! : `${addDays(today, 1)}T00:00`);
  const [reason, setReason] = useState('');
  const open = (): Promise<void> =>
    act.run(async () => {
      const subject = { ad_id: adId.trim(), from, to, timezone: zone, reason, ...advertiserParams };
      const { id } = await api.post<Dispute>('/v1/disputes', subject);
      go(`/disputes/${encodeURIComponent(id)}`);
    });
  return (
    <Dialog title="Open a dispute" onClose={onClose}>
      <Form onSubmit={() => void open()}>
        <TextField label="Ad id" value={adId} onValue={setAdId} required />
        <div class="field-row">
          <TextField label="From" type="datetime-local" value={from} onValue={setFrom} required />
          <TextField
            label="To (not included)"
            type="datetime-local"
            value={to}
            onValue={setTo}
            required
          />
        </div>
        <p class="hint">Times are in {zoneText(zone)}.</p>
        <TextArea
          label="What is wrong with these clicks?"
          value={reason}
          onValue={setReason}
          maxLength={MAX_REASON}
          required
        />
        {act.error !== undefined && <ErrorNote error={act.error} />}
        <footer class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={act.busy}>
            Open dispute
          </Button>
        </footer>
      </Form>
    </Dialog>
  );
}

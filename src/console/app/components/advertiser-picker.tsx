/** An operator looks at one advertiser at a time: one that is known, or any id that is typed. */
import { useEffect, useState } from 'preact/hooks';
import type { AdRow, TokenRow } from '../api/admin-types.ts';
import { useApp, useNavigation, useScope } from '../state/context.ts';
import { useQuery } from '../state/use-query.ts';
import { Button } from './button.tsx';
import { Form, TextField } from './field.tsx';

const ADS_LOOKED_AT = 1_000;

export function AdvertiserPicker() {
  const { advertiser } = useScope();
  const { setQuery } = useNavigation();
  const [typed, setTyped] = useState(advertiser ?? '');
  const known = useKnownAdvertisers();
  useEffect(() => setTyped(advertiser ?? ''), [advertiser]);
  return (
    <Form
      class="picker"
      label="Advertiser"
      onSubmit={() => setQuery({ adv: typed.trim() || undefined })}
    >
      <TextField
        label="Advertiser"
        value={typed}
        suggestions={known}
        placeholder="Type or choose…"
        onValue={(value) => {
          setTyped(value);
          // Chosen from the list: that is all there is to say.
          if (known.includes(value)) setQuery({ adv: value });
        }}
      />
      <Button type="submit">Show</Button>
    </Form>
  );
}

function useKnownAdvertisers(): readonly string[] {
  const { api } = useApp();
  const { data } = useQuery('advertisers', async (signal) => {
    const [ads, tokens] = await Promise.allSettled([
      api.get<{ ads: AdRow[] }>('/v1/admin/ads', { params: { limit: ADS_LOOKED_AT }, signal }),
      api.get<{ tokens: TokenRow[] }>('/v1/admin/tokens', { signal }),
    ]);
    const ids = [
      ...(ads.status === 'fulfilled' ? ads.value.ads : []),
      ...(tokens.status === 'fulfilled' ? tokens.value.tokens : []),
    ].flatMap(({ advertiser_id }) => (advertiser_id === null ? [] : [advertiser_id]));
    return [...new Set(ids)].sort();
  });
  return data ?? [];
}

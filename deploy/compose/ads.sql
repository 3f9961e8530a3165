-- The ads table of another system, for a first try. docs/operating/catalog-from-postgresql.md says what it must be.
CREATE TABLE public.ads (
  ad_id         text PRIMARY KEY,
  advertiser_id text NOT NULL,
  campaign_id   text NOT NULL,
  target_url    text NOT NULL,
  updated_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ads_updated_at ON public.ads (updated_at, ad_id);
INSERT INTO public.ads (ad_id, advertiser_id, campaign_id, target_url)
VALUES ('ad-1', 'acme', 'spring', 'https://shop.example.com/shoes?click={impression_id}');

/** The sample ads: three advertisers, a hot ad, targets with macros, and some that pass the query on. */
import type { Ad } from '../ads/port.ts';

type Sample = readonly [adId: string, campaignId: string, targetUrl: string, passQuery?: boolean];

const SAMPLES: Readonly<Record<string, readonly Sample[]>> = {
  'acme-shoes': [
    ['shoes-hero', 'spring-sale', 'https://shoes.example/spring?utm_source=ads&utm_medium=cpc'],
    ['shoes-trail', 'spring-sale', 'https://shoes.example/trail?click={impression_id}'],
    ['shoes-kids', 'back-to-school', 'https://shoes.example/kids?c={country}&d={device}'],
    ['shoes-outlet', 'back-to-school', 'https://shoes.example/outlet', true],
  ],
  'globex-travel': [
    ['travel-rome', 'city-breaks', 'https://travel.example/rome?ad={ad_id}&t={timestamp}'],
    ['travel-oslo', 'city-breaks', 'https://travel.example/oslo?campaign={campaign_id}', true],
    ['travel-kyoto', 'far-away', 'https://travel.example/京都?from=ads'],
    ['travel-last-minute', 'far-away', 'https://travel.example/last-minute#today'],
  ],
  'initech-cloud': [
    ['cloud-trial', 'developers', 'https://cloud.example/trial?cid={impression_id}&src={ad_id}'],
    ['cloud-storage', 'developers', 'https://cloud.example/storage', true],
    ['cloud-webinar', 'managers', 'https://events.cloud.example:8443/webinar?who={country}'],
    ['cloud-whitepaper', 'managers', 'http://docs.cloud.example/paper.pdf'],
  ],
};

/** The first one is the hot ad. */
export const DEMO_ADS: readonly Ad[] = Object.entries(SAMPLES).flatMap(([advertiserId, samples]) =>
  samples.map(([adId, campaignId, targetUrl, passQuery = false]) => {
    return { adId, advertiserId, campaignId, targetUrl, passQuery };
  }),
);

/** The ads as a file that the import takes. */
export function demoAdsNdjson(): string {
  const rows = DEMO_ADS.map((ad) => ({
    ad_id: ad.adId,
    advertiser_id: ad.advertiserId,
    campaign_id: ad.campaignId,
    target_url: ad.targetUrl,
    pass_query: ad.passQuery,
  }));
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('');
}

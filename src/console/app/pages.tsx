/** Every page of the console: its address, and who may see it. */
import type { ComponentType } from 'preact';
import type { Me } from './api/types.ts';
import { ClicksView } from './views/clicks/clicks-view.tsx';
import { DisputeView } from './views/disputes/dispute-view.tsx';
import { DisputesView } from './views/disputes/disputes-view.tsx';
import { EvidenceView } from './views/evidence-view.tsx';
import { HoursView } from './views/hours-view.tsx';
import { AccessView } from './views/operator/access-view.tsx';
import { ActionsView } from './views/operator/actions-view.tsx';
import { AdsView } from './views/operator/ads-view.tsx';
import { AuditView } from './views/operator/audit-view.tsx';
import { DeadLettersView } from './views/operator/dead-letters-view.tsx';
import { PipelineView } from './views/operator/pipeline-view.tsx';
import { WebhooksView } from './views/operator/webhooks-view.tsx';
import { RestatementsView } from './views/restatements-view.tsx';
import { StatementsView } from './views/statements-view.tsx';

export interface Page {
  readonly path: string;
  readonly title: string;
  readonly view: ComponentType;
  readonly needsAdvertiser?: boolean;
}

interface Area {
  readonly title: string;
  readonly scope: Me['scope'];
  readonly pages: readonly Page[];
}

export const AREAS: readonly Area[] = [
  {
    title: 'Reports',
    scope: 'read',
    pages: [
      { path: '/clicks', title: 'Clicks', view: ClicksView, needsAdvertiser: true },
      { path: '/evidence', title: 'Evidence', view: EvidenceView, needsAdvertiser: true },
      { path: '/statements', title: 'Statements', view: StatementsView, needsAdvertiser: true },
      { path: '/disputes', title: 'Disputes', view: DisputesView },
      { path: '/hours', title: 'Hours', view: HoursView },
      { path: '/restatements', title: 'Restatements', view: RestatementsView },
    ],
  },
  {
    title: 'Operations',
    scope: 'admin',
    pages: [
      { path: '/pipeline', title: 'Pipeline', view: PipelineView },
      { path: '/dead-letters', title: 'Dead letters', view: DeadLettersView },
      { path: '/ads', title: 'Catalog', view: AdsView },
      { path: '/access', title: 'Keys and tokens', view: AccessView },
      { path: '/webhooks', title: 'Webhooks', view: WebhooksView },
      { path: '/actions', title: 'Recount and verify', view: ActionsView },
      { path: '/audit', title: 'Audit log', view: AuditView },
    ],
  },
];

/** Pages that are not in the menu, by the beginning of their path. */
const DISPUTE: Page = { path: '/disputes/', title: 'Dispute', view: DisputeView };

export function pageOf(path: string, scope: Me['scope']): Page | undefined {
  const areas = AREAS.filter((area) => area.scope === 'read' || scope === 'admin');
  const pages = areas.flatMap((area) => area.pages);
  if (path === '/')
    return pages.find((page) => page.path === (scope === 'admin' ? '/pipeline' : '/clicks'));
  if (path.startsWith(DISPUTE.path)) return DISPUTE;
  return pages.find((page) => page.path === path);
}

/** What stands around every view: who is signed in, where one can go, and the place for the view. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { AdvertiserPicker } from './components/advertiser-picker.tsx';
import { Brand } from './components/brand.tsx';
import { Button } from './components/button.tsx';
import { PageHead } from './components/card.tsx';
import { Empty } from './components/states.tsx';
import { ThemeSwitch } from './components/theme-switch.tsx';
import { AREAS, type Page, pageOf } from './pages.tsx';
import { useApp, useNavigation, useScope } from './state/context.ts';

export function Shell() {
  const { me, route, signOut } = useApp();
  const page = pageOf(route.path, me.scope);
  const [isMenuOpen, setMenuOpen] = useState(false);
  // the menu has done its work then.
  useEffect(() => setMenuOpen(false), [route.path]);
  return (
    <div class="shell">
      <button type="button" class="skip-link" onClick={focusMain}>
        Skip to content
      </button>
      <header class="top">
        <Button
          kind="quiet"
          label={isMenuOpen ? 'Close menu' : 'Open menu'}
          onClick={() => setMenuOpen(!isMenuOpen)}
        >
          ☰
        </Button>
        <Brand />
        <div class="top-right">
          <ThemeSwitch />
          <Button kind="quiet" onClick={signOut}>
            Sign out
          </Button>
        </div>
      </header>
      <Menu isOpen={isMenuOpen} current={page} />
      <main id="main" tabIndex={-1}>
        <View page={page} />
      </main>
    </div>
  );
}

/** No link: the address after `#` belongs to the views. */
function focusMain(): void {
  document.getElementById('main')?.focus();
}

function Menu({ isOpen, current }: { isOpen: boolean; current: Page | undefined }) {
  const { me } = useApp();
  const { href } = useNavigation();
  return (
    <nav class={`menu${isOpen ? ' menu-open' : ''}`} aria-label="Main">
      {AREAS.filter(({ scope }) => scope === 'read' || me.scope === 'admin').map((area) => (
        <section key={area.title} aria-label={area.title}>
          <h2>{area.title}</h2>
          {area.scope === 'read' && <WhoseNumbers />}
          <ul>
            {area.pages.map((page) => (
              <li key={page.path}>
                <a href={href(page.path)} aria-current={page === current ? 'page' : undefined}>
                  {page.title}
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <footer>
        <a href="../docs">API reference</a>
        <span>Version {me.version}</span>
      </footer>
    </nav>
  );
}

function WhoseNumbers() {
  const { me } = useApp();
  if (me.scope === 'admin') return <AdvertiserPicker />;
  return (
    <p class="whose">
      <span class="visually-hidden">Advertiser </span>
      {me.advertiser_id}
    </p>
  );
}

function View({ page }: { page: Page | undefined }) {
  const { route } = useApp();
  const { advertiser } = useScope();
  const place = useRef<HTMLDivElement>(null);
  const first = useRef(true);
  const title = page?.title ?? 'Not found';
  // a new view is read out from its heading.
  useEffect(() => {
    document.title = `${title} · ClickLedger`;
    if (!first.current) place.current?.querySelector('h1')?.focus({ preventScroll: true });
    if (!first.current) scrollTo(0, 0);
    first.current = false;
  }, [route.path]);
  return (
    <div ref={place} class="view" key={`${route.path} ${advertiser ?? ''}`}>
      <Content page={page} hasAdvertiser={advertiser !== undefined} />
    </div>
  );
}

function Content({ page, hasAdvertiser }: { page: Page | undefined; hasAdvertiser: boolean }) {
  if (page === undefined) {
    return (
      <>
        <PageHead title="Not found" />
        <Empty title="There is no such page for this token.">Choose one from the menu.</Empty>
      </>
    );
  }
  if (page.needsAdvertiser === true && !hasAdvertiser) {
    return (
      <>
        <PageHead title={page.title} />
        <Empty title="Choose an advertiser.">
          These numbers belong to one advertiser; pick it in the menu.
        </Empty>
      </>
    );
  }
  return <page.view />;
}

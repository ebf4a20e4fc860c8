/** The head of every page, and cards below it. A new page puts the focus on its title, so that it is read out. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { pagePath } from '../core/router.ts';

let shownPage: string | null = null;

/** Less of a card than this is out of sight. */
const SEEN_PX = 120;

export function PageHead({
  title,
  lead,
  crumbs,
  beside,
  children,
}: {
  title: string;
  lead?: ComponentChildren;
  crumbs?: ComponentChildren;
  /** Stands beside the title: a status. */
  beside?: ComponentChildren;
  /** Actions. */
  children?: ComponentChildren;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Callboard`;
    // The first page is left alone: the browser starts at its top by itself.
    if (shownPage !== null && shownPage !== pagePath.peek()) heading.current?.focus({ preventScroll: true });
    shownPage = pagePath.peek();
  }, [title]);
  return (
    <div class="page-head">
      <div class="titles">
        {crumbs !== undefined && <div class="crumbs">{crumbs}</div>}
        <div class="title-line">
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {beside}
        </div>
        {lead !== undefined && <p class="lead">{lead}</p>}
      </div>
      {children !== undefined && <div class="row">{children}</div>}
    </div>
  );
}

export function Card({
  title,
  actions,
  flush = false,
  tone,
  reveal,
  children,
}: {
  title?: ComponentChildren;
  actions?: ComponentChildren;
  /** The content reaches the edges: tables, graphs. */
  flush?: boolean;
  tone?: 'failed';
  /** At another one the card comes into sight, where it stands below the window and not beside what was chosen. */
  reveal?: string | number;
  children: ComponentChildren;
}) {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (reveal === undefined || card.current === null) return;
    const isBelow = card.current.getBoundingClientRect().top > window.innerHeight - SEEN_PX;
    if (isBelow) card.current.scrollIntoView({ block: 'start' });
  }, [reveal]);
  return (
    <section class={tone === undefined ? 'card' : `card ${tone}`} ref={card}>
      {title !== undefined && (
        <header>
          <h2>{title}</h2>
          {actions !== undefined && <div class="row">{actions}</div>}
        </header>
      )}
      <div class={flush ? 'body flush' : 'body'}>{children}</div>
    </section>
  );
}

export function Tabs({
  label,
  tabs,
  current,
}: {
  label: string;
  tabs: readonly { readonly id: string; readonly name: string; readonly href: string }[];
  current: string;
}) {
  const bar = useRef<HTMLElement>(null);
  // In a narrow window not all tabs are in sight; the one that is shown is.
  useEffect(() => {
    const shown = bar.current?.querySelector<HTMLElement>('[aria-current]');
    if (bar.current == null || shown == null) return;
    const side = (bar.current.clientWidth - shown.offsetWidth) / 2;
    bar.current.scrollLeft += shown.getBoundingClientRect().left - bar.current.getBoundingClientRect().left - side;
  }, [current]);
  return (
    <nav class="tabs" aria-label={label} ref={bar}>
      {tabs.map((each) => (
        <a key={each.id} class="tab" href={each.href} aria-current={each.id === current ? 'page' : undefined}>
          {each.name}
        </a>
      ))}
    </nav>
  );
}

/** The head of every page, and cards below it. A new page puts the focus on its title, so that it is read out. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { pagePath } from '../core/router.ts';

let shownPage: string | null = null;

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
    if (shownPage !== null && shownPage !== pagePath.peek()) heading.current?.focus();
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
  children,
}: {
  title?: ComponentChildren;
  actions?: ComponentChildren;
  /** The content reaches the edges: tables, graphs. */
  flush?: boolean;
  tone?: 'failed';
  children: ComponentChildren;
}) {
  return (
    <section class={tone === undefined ? 'card' : `card ${tone}`}>
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
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((each) => (
        <a key={each.id} class="tab" href={each.href} aria-current={each.id === current ? 'page' : undefined}>
          {each.name}
        </a>
      ))}
    </nav>
  );
}

/** Text that scrolls inside the page: a named region that can be reached and scrolled by keyboard. */
import type { ComponentChildren } from 'preact';

export function ScrollRegion({
  label,
  class: name,
  children,
}: {
  label: string;
  class: string;
  children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class={name} aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}

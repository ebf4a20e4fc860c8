/** Text that scrolls inside the page: a named region that can be reached and scrolled by keyboard. */
import type { ComponentChildren, Ref } from 'preact';

export function ScrollRegion({
  label,
  class: name,
  area,
  children,
}: {
  label: string;
  class: string;
  area?: Ref<HTMLElement>;
  children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class={name} aria-label={label} tabIndex={0} ref={area}>
      {children}
    </section>
  );
}

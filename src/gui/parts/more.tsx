/** The end of a table that does not show all there is: a page with ten thousand rows is of use to nobody. */

export const ROWS_SHOWN = 200;

export function More({ total, hint }: { total: number; hint: string }) {
  if (total <= ROWS_SHOWN) return null;
  return (
    <p class="soft small pad">
      The first {ROWS_SHOWN} of {total.toLocaleString('en')} are shown. {hint}
    </p>
  );
}

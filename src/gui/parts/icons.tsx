/** Line icons drawn on a grid of 16, in the colour of their text. They say nothing to a screen reader: words do. */

const PATHS = {
  overview: 'M2.5 2.5h4.5v5h-4.5zM9 2.5h4.5v3h-4.5zM9 7.5h4.5v6h-4.5zM2.5 9.5h4.5v4h-4.5z',
  runs: 'M2.5 4h7M2.5 8h11M2.5 12h5M12 2.2l2 1.8-2 1.8',
  book: 'M3 3.2c1.8-.9 3.4-.9 5 0v10c-1.6-.9-3.2-.9-5 0zM8 3.2c1.6-.9 3.2-.9 5 0v10c-1.8-.9-3.4-.9-5 0',
  edit: 'M10.8 2.6l2.6 2.6L6 12.6l-3.4.8.8-3.4z',
  chart: 'M2.5 5h4v3h-4zM9.500 2.500h4v3h-4zM9.500 10.500h4v3h-4zM6.500 6.500h1.500v-2.500h1.500M8 6.500v5.500h1.500',
  workers: 'M5 3.500h6v5h-6zM8 8.500v2M3 13.500h10M4.500 13.500v-3h7v3',
  key: 'M10.500 2.500a3 3 0 1 1-2.600 4.500l-5.400 5.500v1h2.500v-1.500h1.500v-1.500l1.900-1.900a3 3 0 0 1 2.100-6.100zM11 5.300v.1',
  chain:
    'M6.800 9.200l2.400-2.400M7 4.800l1.500-1.500a2.600 2.600 0 0 1 3.800 3.800l-1.500 1.500M9 11.200l-1.500 1.500a2.600 2.600 0 0 1-3.800-3.800l1.500-1.500',
  batch: 'M2.500 5.500l5.500-3 5.500 3-5.500 3zM2.500 8.500l5.500 3 5.500-3M2.500 11l5.500 3 5.500-3',
  recover: 'M8 2.500v3M8 13.500a5.500 5.500 0 1 0-4.600-8.500M3 2.500v2.800h2.800M8 6.500v2.500l1.800 1',
  clock: 'M8 2.500a5.500 5.500 0 1 1 0 11a5.500 5.500 0 1 1 0-11M8 5v3.200l2.200 1.300',
  play: 'M4.500 2.800v10.400l8.500-5.200z',
  stop: 'M4 4h8v8h-8z',
  again: 'M13 8a5 5 0 1 1-1.500-3.600M13 2.300v2.700h-2.700',
  check: 'M3.200 8.400l3.200 3.200 6.400-7',
  cross: 'M4 4l8 8M12 4l-8 8',
  alert: 'M8 2.300l6 11h-12zM8 6.500v3M8 11.300v.2',
  circle: 'M8 3a5 5 0 1 1 0 10a5 5 0 1 1 0-10',
  turning: 'M8 2.500a5.500 5.500 0 1 0 5.500 5.500',
  minus: 'M3.500 8h9',
  dash: 'M5 8h6M8 2.500a5.500 5.500 0 1 1 0 11a5.500 5.500 0 1 1 0-11',
  copy: 'M5.500 5.500h7.500v8h-7.500zM3 10.500v-8h7.500',
  search: 'M7 2.800a4.200 4.200 0 1 1 0 8.400a4.200 4.200 0 1 1 0-8.400M10.200 10.200l3.300 3.300',
  down: 'M3.500 6l4.500 4.500 4.500-4.500',
  left: 'M10 3.500l-4.500 4.500 4.500 4.500',
  right: 'M6 3.500l4.500 4.500-4.500 4.500',
  loop: 'M3 7a4 4 0 0 1 7-2.500l1.500 1.500M11.800 3v3h-3M13 9a4 4 0 0 1-7 2.500l-1.500-1.500M4.200 13v-3h3',
  eye: 'M1.800 8c2-3.300 4-4.700 6.200-4.700s4.200 1.400 6.200 4.700c-2 3.300-4 4.700-6.200 4.700s-4.200-1.400-6.200-4.700M8 6.200a1.800 1.800 0 1 1 0 3.600a1.800 1.800 0 1 1 0-3.600',
  plus: 'M8 3v10M3 8h10',
  cloud: 'M4.500 12.500a3 3 0 0 1 .2-6 3.800 3.800 0 0 1 7.200 1 2.500 2.500 0 0 1 0 5zM3 2.500l10 11',
  trash: 'M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.6 9h5.800l.6-9M7 7v4M9 7v4',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, spin = false }: { name: IconName; size?: number; spin?: boolean }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      class={spin ? 'spin' : undefined}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

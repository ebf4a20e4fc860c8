/** A long list of rows of one height: only those in view exist. The keys ↑ ↓ PageUp PageDown Home End move the choice. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

const BEYOND = 10;

export function VirtualRows({
  count,
  rowHeight,
  label,
  chosen,
  onChoose,
  onOpen,
  onRange,
  reveal,
  row,
}: {
  count: number;
  rowHeight: number;
  label: string;
  chosen: number;
  onChoose: (index: number) => void;
  onOpen: (index: number) => void;
  /** Told which rows are in view. */
  onRange: (from: number, to: number) => void;
  /** When this changes, the chosen row is brought into view. */
  reveal: number | null;
  row: (index: number) => ComponentChildren;
}) {
  const area = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const frame = useRef(0);
  const from = Math.max(0, Math.floor(top / rowHeight) - BEYOND);
  const to = Math.min(count - 1, Math.ceil((top + height) / rowHeight) + BEYOND);
  useEffect(() => onRange(from, to), [from, to, count]);
  useEffect(() => {
    const element = area.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    const element = area.current;
    if (element === null || reveal === null || chosen < 0) return;
    const y = chosen * rowHeight;
    if (y < element.scrollTop || y + rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = y - element.clientHeight / 2;
  }, [reveal, chosen >= 0]);

  const onScroll = (): void => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => setTop(area.current?.scrollTop ?? 0));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(height / rowHeight) - 1);
    const goal = (
      {
        ArrowDown: chosen + 1,
        ArrowUp: chosen - 1,
        PageDown: chosen + page,
        PageUp: chosen - page,
        Home: 0,
        End: count - 1,
      } as Readonly<Record<string, number>>
    )[event.key];
    if (goal === undefined) {
      if (event.key === 'Enter' && chosen >= 0) {
        event.preventDefault();
        onOpen(chosen);
      }
      return;
    }
    event.preventDefault();
    const index = Math.min(count - 1, Math.max(0, goal));
    onChoose(index);
    const element = area.current;
    if (element === null) return;
    const y = index * rowHeight;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = y + rowHeight - element.clientHeight;
  };

  const rows = [];
  for (let index = from; index <= to; index++) {
    rows.push(
      // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the list
      // biome-ignore lint/a11y/useFocusableInteractive: the list keeps the focus and names the chosen row
      <div
        key={index}
        id={`row-${index}`}
        class="virtual-row"
        role="option"
        aria-selected={index === chosen}
        aria-posinset={index + 1}
        aria-setsize={count}
        style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}
        onClick={() => {
          onChoose(index);
          onOpen(index);
        }}
      >
        {row(index)}
      </div>,
    );
  }
  return (
    <div
      ref={area}
      class="virtual"
      role="listbox"
      aria-label={label}
      aria-activedescendant={chosen >= from && chosen <= to ? `row-${chosen}` : undefined}
      tabIndex={0}
      onScroll={onScroll}
      onKeyDown={onKeyDown}
    >
      <div class="virtual-space" role="presentation" style={{ height: `${count * rowHeight}px` }}>
        {rows}
      </div>
    </div>
  );
}

/** Keeps the newest message in sight, unless the reader has scrolled up. */
import { type RefObject, useEffect, useLayoutEffect, useRef } from "react";

const NEAR_PX = 80;

export function useStickyScroll<T extends HTMLElement>(content: unknown[]): RefObject<T | null> {
  const element = useRef<T>(null);
  const sticks = useRef(true);
  useEffect(() => {
    const target = element.current;
    if (!target) return;
    const onScroll = () => {
      sticks.current = target.scrollHeight - target.scrollTop - target.clientHeight < NEAR_PX;
    };
    target.addEventListener("scroll", onScroll, { passive: true });
    return () => target.removeEventListener("scroll", onScroll);
  }, []);
  useLayoutEffect(() => {
    const target = element.current;
    if (target && sticks.current) target.scrollTop = target.scrollHeight;
    // The caller names what changes the height.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, content);
  return element;
}

/** The conversations of the sidebar; refreshed when a run settles, when another tab says so, and every few seconds. */
import { useCallback, useEffect, useRef, useState } from "react";
import { listThreads, SignedOutError, type ThreadSummary } from "./api";

const REFRESH_MS = 10_000;

export interface Threads {
  items: ThreadSummary[] | null;
  refresh: () => void;
  forget: (id: string) => void;
}

export function useThreads(onSignedOut: () => void): Threads {
  const [items, setItems] = useState<ThreadSummary[] | null>(null);
  const tabs = useRef<BroadcastChannel | null>(null);
  const load = useCallback(async () => {
    try {
      setItems(await listThreads());
    } catch (error) {
      if (error instanceof SignedOutError) onSignedOut();
      // Else the server is away: keep what is shown, the next refresh tries again.
    }
  }, [onSignedOut]);

  useEffect(() => {
    tabs.current = new BroadcastChannel("slipway-chat");
    tabs.current.onmessage = () => void load();
    void load();
    const timer = window.setInterval(() => {
      if (!document.hidden) void load();
    }, REFRESH_MS);
    return () => {
      window.clearInterval(timer);
      tabs.current?.close();
    };
  }, [load]);

  const refresh = useCallback(() => {
    tabs.current?.postMessage("changed");
    void load();
  }, [load]);
  const forget = useCallback((id: string) => {
    setItems((known) => known?.filter((item) => item.id !== id) ?? null);
  }, []);
  return { items, refresh, forget };
}

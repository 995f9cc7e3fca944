/** The page: the list of conversations beside the open one. */
import { useCallback, useEffect, useState } from "react";
import { deleteThread, SignedOutError } from "./api";
import { Conversation } from "./components/Conversation";
import { MenuIcon } from "./components/Icons";
import { Sidebar } from "./components/Sidebar";
import { SignIn } from "./components/SignIn";
import { TraceView } from "./components/TraceView";
import { showInAddress, threadInAddress, traceInAddress } from "./location";
import { errorText } from "./messages";
import { useTheme } from "./theme";
import { useThreads } from "./useThreads";

/** One mounted conversation. A new `key` mounts it anew, also for the same thread. */
interface Slot {
  key: number;
  threadId: string | null;
}

export function App() {
  const [signedOut, setSignedOut] = useState(false);
  const onSignedOut = useCallback(() => setSignedOut(true), []);
  const trace = traceInAddress();
  if (signedOut) return <SignIn onSignedIn={() => setSignedOut(false)} />;
  return trace ? <TraceView {...trace} onSignedOut={onSignedOut} /> : <Chat onSignedOut={onSignedOut} />;
}

function Chat({ onSignedOut }: { onSignedOut: () => void }) {
  const [theme, toggleTheme] = useTheme();
  const [slot, setSlot] = useState<Slot>(() => ({ key: 0, threadId: threadInAddress() }));
  const [menuOpen, setMenuOpen] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const threads = useThreads(onSignedOut);

  const open = useCallback((threadId: string | null) => {
    showInAddress(threadId);
    setSlot((current) => ({ key: current.key + 1, threadId }));
    setMenuOpen(false);
    setProblem(null);
  }, []);

  useEffect(() => {
    const onPopState = () => setSlot((current) => ({ key: current.key + 1, threadId: threadInAddress() }));
    window.addEventListener("popstate", onPopState);
    return () => window.removeEventListener("popstate", onPopState);
  }, []);

  const onCreated = useCallback((threadId: string) => {
    showInAddress(threadId, true);
    setSlot((current) => ({ ...current, threadId }));
  }, []);
  const reload = useCallback(() => setSlot((current) => ({ ...current, key: current.key + 1 })), []);

  const remove = async (id: string) => {
    try {
      await deleteThread(id);
      threads.forget(id);
      threads.refresh();
      if (id === slot.threadId) open(null);
    } catch (error) {
      if (error instanceof SignedOutError) onSignedOut();
      else setProblem(`The conversation was not deleted: ${errorText(error)}`);
    }
  };

  const title = threads.items?.find((item) => item.id === slot.threadId)?.title ?? "New conversation";
  useEffect(() => {
    document.title = `${title} · Slipway`;
  }, [title]);

  return (
    <div className="page">
      <a className="skip" href="#message">
        Skip to the message field
      </a>
      <Sidebar
        threads={threads.items}
        openId={slot.threadId}
        expanded={menuOpen}
        theme={theme}
        onToggleTheme={toggleTheme}
        onNew={() => open(null)}
        onOpen={open}
        onDelete={(id) => void remove(id)}
        onClose={() => setMenuOpen(false)}
      />
      <main className="main">
        <header className="bar">
          <button
            type="button"
            className="icon-button only-narrow"
            aria-label="Conversations"
            aria-expanded={menuOpen}
            onClick={() => setMenuOpen(true)}
          >
            <MenuIcon />
          </button>
          <h1 className="bar-title">{title}</h1>
        </header>
        {problem && (
          <p className="notice error" role="alert">
            {problem}
          </p>
        )}
        <Conversation
          key={slot.key}
          threadId={slot.threadId}
          onCreated={onCreated}
          onChanged={threads.refresh}
          onReload={reload}
        />
      </main>
    </div>
  );
}

/** The list of conversations. On narrow screens a drawer over the page. */
import { useEffect, useRef, useState } from "react";
import type { ThreadSummary } from "../api";
import type { Theme } from "../theme";
import { CloseIcon, MoonIcon, PlusIcon, SunIcon, TrashIcon } from "./Icons";

interface Props {
  threads: ThreadSummary[] | null;
  openId: string | null;
  expanded: boolean;
  theme: Theme;
  onToggleTheme: () => void;
  onNew: () => void;
  onOpen: (id: string) => void;
  onDelete: (id: string) => void;
  onClose: () => void;
}

export function Sidebar(props: Props) {
  const { threads, openId, expanded, theme, onToggleTheme, onNew, onOpen, onDelete, onClose } = props;
  const closeButton = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!expanded) return;
    closeButton.current?.focus();
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") onClose();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [expanded, onClose]);

  return (
    <>
      {expanded && <div className="backdrop" onClick={onClose} aria-hidden="true" />}
      <nav className={expanded ? "sidebar expanded" : "sidebar"} aria-label="Conversations">
        <div className="sidebar-head">
          <span className="brand">Slipway</span>
          <button
            type="button"
            className="icon-button"
            onClick={onToggleTheme}
            aria-label={theme === "dark" ? "Use light colours" : "Use dark colours"}
          >
            {theme === "dark" ? <SunIcon /> : <MoonIcon />}
          </button>
          <button
            ref={closeButton}
            type="button"
            className="icon-button only-narrow"
            onClick={onClose}
            aria-label="Close the list of conversations"
          >
            <CloseIcon />
          </button>
        </div>
        <button type="button" className="new-button" onClick={onNew}>
          <PlusIcon /> New conversation
        </button>
        <h2 className="sidebar-title">History</h2>
        {threads?.length === 0 && <p className="muted sidebar-empty">No conversations yet.</p>}
        <ul className="thread-list">
          {threads?.map((thread) => (
            <ThreadItem
              key={thread.id}
              thread={thread}
              current={thread.id === openId}
              onOpen={() => onOpen(thread.id)}
              onDelete={() => onDelete(thread.id)}
            />
          ))}
        </ul>
      </nav>
    </>
  );
}

interface ItemProps {
  thread: ThreadSummary;
  current: boolean;
  onOpen: () => void;
  onDelete: () => void;
}

function ThreadItem({ thread, current, onOpen, onDelete }: ItemProps) {
  const [asking, setAsking] = useState(false);
  if (asking) {
    return (
      <li className="thread asking">
        <span className="thread-question">Delete this conversation?</span>
        <span className="thread-answers">
          <button type="button" className="small-button danger" autoFocus onClick={onDelete}>
            Delete
          </button>
          <button type="button" className="small-button" onClick={() => setAsking(false)}>
            Keep
          </button>
        </span>
      </li>
    );
  }
  return (
    <li className={current ? "thread current" : "thread"}>
      <button type="button" className="thread-open" aria-current={current ? "page" : undefined} onClick={onOpen}>
        <span className="thread-title">{thread.title}</span>
        {thread.updatedAt && (
          <time className="thread-time" dateTime={thread.updatedAt}>
            {shortTime(thread.updatedAt)}
          </time>
        )}
      </button>
      <button
        type="button"
        className="icon-button thread-delete"
        aria-label={`Delete “${thread.title}”`}
        onClick={() => setAsking(true)}
      >
        <TrashIcon />
      </button>
    </li>
  );
}

const TODAY = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const EARLIER = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

function shortTime(text: string): string {
  const time = new Date(text);
  return time.toDateString() === new Date().toDateString() ? TODAY.format(time) : EARLIER.format(time);
}

/** The open conversation is part of the address: /chat/<thread id>. */

const PATTERN = /^\/chat\/([0-9a-fA-F-]{36})\/?$/;

export function threadInAddress(): string | null {
  return PATTERN.exec(window.location.pathname)?.[1]?.toLowerCase() ?? null;
}

const TRACE = /^\/chat\/([0-9a-fA-F-]{36})\/trace\/([0-9a-fA-F-]{36})\/?$/;

/** /chat/<thread id>/trace/<run id> is a page of its own. */
export function traceInAddress(): { threadId: string; runId: string } | null {
  const match = TRACE.exec(window.location.pathname);
  return match?.[1] && match[2] ? { threadId: match[1], runId: match[2] } : null;
}

export function showInAddress(threadId: string | null, replace = false): void {
  const path = threadId ? `/chat/${threadId}` : "/chat";
  if (path === window.location.pathname) return;
  if (replace) window.history.replaceState(null, "", path);
  else window.history.pushState(null, "", path);
}

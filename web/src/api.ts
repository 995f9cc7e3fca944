/** The facade's routes that the streaming client does not know: list, delete, cancel, activity, session. */

export interface ThreadSummary {
  id: string;
  title: string;
  updatedAt: string | null;
}

/** What happens on a thread now, and where an operator sees it. */
export interface Activity {
  status: "idle" | "busy" | "interrupted" | "error";
  runId: string | null;
  runStatus: string | null;
  error: string | null;
  interruptIds: string[];
  workflowUrl: string | null;
  traceUrl: string | null;
}

/** One step of a run's trace. */
export interface Span {
  id: string;
  parentId: string | null;
  name: string;
  type: string;
  status: string;
  error: string | null;
  startTime: string;
  endTime: string | null;
  totalTokens: number | null;
}

export class SignedOutError extends Error {}

export const API_URL = `${window.location.origin}/api`;

async function request(path: string, init?: RequestInit): Promise<Response> {
  const response = await fetch(`${API_URL}${path}`, { cache: "no-store", credentials: "same-origin", ...init });
  if (response.status === 401) throw new SignedOutError("Signed out");
  return response;
}

async function message(response: Response): Promise<string> {
  try {
    const body: unknown = await response.json();
    if (body && typeof body === "object") {
      const { message: text, detail } = body as { message?: unknown; detail?: unknown };
      if (typeof text === "string") return text;
      if (typeof detail === "string") return detail;
    }
  } catch {
    // No JSON: the status has to do.
  }
  return `The server answered ${response.status}.`;
}

/** Conversations, newest first. */
export async function listThreads(): Promise<ThreadSummary[]> {
  const response = await request("/threads");
  if (!response.ok) throw new Error(await message(response));
  return (await response.json()) as ThreadSummary[];
}

/** Deletes a conversation with its state, and cancels its run. */
export async function deleteThread(id: string): Promise<void> {
  const response = await request(`/threads/${id}`, { method: "DELETE" });
  if (!response.ok) throw new Error(await message(response));
}

/** Null while the server does not know the thread yet. */
export async function getActivity(id: string): Promise<Activity | null> {
  const response = await request(`/threads/${id}/activity`);
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(await message(response));
  return (await response.json()) as Activity;
}

/** Steps of a run, in order of their start. */
export async function getTrace(threadId: string, runId: string): Promise<Span[]> {
  const response = await request(`/threads/${threadId}/runs/${runId}/trace`);
  if (!response.ok) throw new Error(await message(response));
  return (await response.json()) as Span[];
}

/** Cancels a run on the server; its finished steps stay. */
export async function cancelRun(threadId: string, runId: string): Promise<void> {
  const path = `/threads/${threadId}/runs/${runId}/cancel?wait=0&action=interrupt`;
  const response = await request(path, { method: "POST" });
  if (!response.ok && response.status !== 404 && response.status !== 409) throw new Error(await message(response));
}

/** Exchanges an API key for a session cookie that scripts cannot read. */
export async function signIn(key: string): Promise<boolean> {
  const response = await fetch("/chat/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key }),
  });
  if (response.status === 401) return false;
  if (!response.ok) throw new Error(await message(response));
  return true;
}

/**
 * The `fetch` of a conversation's streams, which gives their connections back while the page is hidden.
 *
 * A browser opens only six connections to one HTTP/1.1 address, over all its tabs, and each stream holds one. The
 * SDK's transport takes a stream that was given back for one that was lost, and asks for it again: that waits until
 * the page is shown, and then goes on after the last event that came.
 */

// A glance at another tab costs nothing.
const GRACE_MS = 2_000;
const GONE = 410;

export function createStreamingFetch(): typeof fetch {
  // A subscription is its signal: the transport passes the same one however often it connects.
  const cursors = new WeakMap<AbortSignal, number>();
  return async (input, init) => {
    const subscription = init?.signal;
    if (!subscription || new Headers(init.headers).get("accept") !== "text/event-stream") return fetch(input, init);
    await shown(subscription);
    const pause = new AbortController();
    const signal = AbortSignal.any([subscription, pause.signal]);
    const forget = whenHidden(() => pause.abort());
    subscription.addEventListener("abort", forget, { once: true });
    try {
      const since = cursors.get(subscription);
      const response = await fetch(input, { ...init, body: resumed(init.body, since), signal });
      if (response.status === GONE) cursors.delete(subscription);
      const noted = response.body?.pipeThrough(noteIds((id) => cursors.set(subscription, id), forget));
      return new Response(noted ?? null, response);
    } catch (error) {
      forget();
      throw error;
    }
  };
}

function resumed(body: BodyInit | null | undefined, since: number | undefined): BodyInit | null | undefined {
  if (since === undefined || typeof body !== "string") return body;
  return JSON.stringify({ ...(JSON.parse(body) as object), since });
}

/** Resolves once the page is visible; rejects if the subscription ends before. */
function shown(subscription: AbortSignal): Promise<void> {
  if (!document.hidden || subscription.aborted) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const done = new AbortController();
    const onChange = () => {
      if (document.hidden) return;
      done.abort();
      resolve();
    };
    document.addEventListener("visibilitychange", onChange, { signal: done.signal });
    const onAbort = () => {
      done.abort();
      reject(new DOMException("The subscription has ended.", "AbortError"));
    };
    subscription.addEventListener("abort", onAbort, { once: true, signal: done.signal });
  });
}

/** Calls back once the page has been hidden for a while; returns what ends the watch. */
function whenHidden(callback: () => void): () => void {
  let timer = 0;
  const onChange = () => {
    window.clearTimeout(timer);
    if (document.hidden) timer = window.setTimeout(callback, GRACE_MS);
  };
  document.addEventListener("visibilitychange", onChange);
  return () => {
    window.clearTimeout(timer);
    document.removeEventListener("visibilitychange", onChange);
  };
}

/** Passes a stream on and tells the number of each event that came whole. */
function noteIds(onId: (id: number) => void, onEnd: () => void): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let rest = "";
  return new TransformStream({
    transform(chunk, controller) {
      const frames = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        const id = /^id: (\d+)$/m.exec(frame);
        if (id) onId(Number(id[1]));
      }
      controller.enqueue(chunk);
    },
    flush: onEnd,
  });
}

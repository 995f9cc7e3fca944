/** One conversation: its messages as they stream in, and the field to write the next one. */
import { useStream } from "@langchain/react";
import { useCallback, useEffect, useRef, useState } from "react";
import { API_URL, cancelRun, getActivity } from "../api";
import { errorText, textOf } from "../messages";
import { createStreamingFetch } from "../streamingFetch";
import { useActivity } from "../useActivity";
import { useFollowing } from "../useFollowing";
import { useStickyScroll } from "../useStickyScroll";
import { Composer } from "./Composer";
import { InterruptPrompt } from "./InterruptPrompt";
import { RunLinks } from "./RunLinks";
import { SubagentView } from "./SubagentView";
import { Transcript } from "./Transcript";
import { TypingDots } from "./TypingDots";
import { Welcome } from "./Welcome";

// The page stays open while servers are restarted: it tries again for as long as it is open.
const RECONNECT_ATTEMPTS = 100_000;

interface Props {
  threadId: string | null;
  onCreated: (threadId: string) => void;
  onChanged: () => void;
  onReload: () => void;
}

export function Conversation({ threadId, onCreated, onChanged, onReload }: Props) {
  // A thread that this page makes is known to the server from its first run on.
  const [begun, setBegun] = useState(threadId !== null);
  const loading = useRef(false);
  const [activity, refreshActivity] = useActivity(begun ? threadId : null, () => loading.current);
  const [viewed, setViewed] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [reconnecting, setReconnecting] = useState(false);
  const ownRun = useRef<string | null>(null);
  const answering = useRef(false);
  const [streamingFetch] = useState(createStreamingFetch);

  const stream = useStream({
    assistantId: "_",
    apiUrl: API_URL,
    threadId,
    fetch: streamingFetch,
    maxReconnectAttempts: RECONNECT_ATTEMPTS,
    onThreadId: onCreated,
    onCreated: ({ runId }) => {
      ownRun.current = runId;
      setBegun(true);
      onChanged();
    },
    onReconnect: () => setReconnecting(true),
    onConnected: () => setReconnecting(false),
  });
  const { messages, isLoading } = stream;
  loading.current = isLoading;
  // The stream replays questions that were answered long ago; the server knows which of them are open.
  const open = activity?.status === "interrupted" && !isLoading ? activity.interruptIds : [];
  const interrupts = stream.interrupts.filter((interrupt) => interrupt.id && open.includes(interrupt.id));
  const subagents = [...stream.subagents.values()];
  const subagent = subagents.find((item) => item.id === viewed);

  useFollowing({ activity, isLoading, ownRun, answering, failed: Boolean(stream.error), onReload });
  useEffect(() => {
    if (isLoading) return;
    refreshActivity();
    onChanged();
    // Only when a run begins or ends, not whenever a callback is made anew.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isLoading]);

  const send = (text: string) => {
    setProblem(null);
    setViewed(null);
    ownRun.current = null;
    void stream.submit({ messages: [{ type: "human", content: text }] });
  };
  const stop = async () => {
    try {
      let runId = ownRun.current ?? activity?.runId;
      // Right after a reload the server may not have said yet which run this is.
      if (!runId && stream.threadId) runId = (await getActivity(stream.threadId))?.runId;
      if (stream.threadId && runId) await cancelRun(stream.threadId, runId);
    } catch (error) {
      setProblem(`The run was not stopped: ${errorText(error)}`);
      return;
    }
    await stream.stop({ cancel: false });
  };
  const respond = (response: unknown, interruptId: string | undefined, namespace: string[] | undefined) => {
    setProblem(null);
    answering.current = true;
    stream.respond(response, { interruptId, namespace }).catch((error: unknown) => setProblem(errorText(error)));
  };

  // The stream replays the end of a run that failed long ago, too; the server knows how this page's own run ended.
  const endedWell = activity?.runStatus === "success" && activity.runId === ownRun.current;
  const live = endedWell ? null : stream.error;
  const failure = problem ?? shownError(live, isLoading, activity?.error ?? null);
  const empty = messages.length === 0 && !isLoading && !stream.isThreadLoading;
  const scroller = useStickyScroll<HTMLDivElement>([messages, viewed, failure, interrupts.length]);
  const back = useCallback(() => setViewed(null), []);

  return (
    <>
      <div className="scroll" ref={scroller} tabIndex={0} aria-label="Messages" role="region">
        {subagent ? (
          <SubagentView stream={stream} subagent={subagent} onBack={back} />
        ) : (
          <div className="column" aria-busy={isLoading}>
            {stream.isThreadLoading && messages.length === 0 && <p className="muted centred">Loading…</p>}
            {empty && <Welcome onPick={send} />}
            <Transcript
              messages={messages}
              toolCalls={stream.toolCalls}
              running={isLoading}
              waiting={interrupts.length > 0}
              subagents={subagents}
              onOpenSubagent={setViewed}
            />
            {isLoading && isWaiting(messages) && <TypingDots />}
            {interrupts.map((interrupt) => (
              <InterruptPrompt
                key={interrupt.id}
                value={interrupt.value}
                onRespond={(response) => respond(response, interrupt.id, interrupt.namespace)}
              />
            ))}
            {failure && (
              <p className="notice error" role="alert">
                {failure}
              </p>
            )}
          </div>
        )}
      </div>
      <Announcer running={isLoading} messages={messages} waiting={interrupts.length > 0} />
      <footer className="foot">
        {reconnecting && isLoading && (
          <p className="notice" role="status">
            The connection was lost; the run goes on. Connecting again…
          </p>
        )}
        <Composer running={isLoading} disabled={interrupts.length > 0} onSend={send} onStop={() => void stop()} />
        <RunLinks activity={activity} />
      </footer>
    </>
  );
}

type Messages = ReturnType<typeof useStream>["messages"];

/** Nothing of the answer can be seen yet. */
function isWaiting(messages: Messages): boolean {
  const last = messages[messages.length - 1];
  return !last || last.getType() !== "ai";
}

function shownError(live: unknown, running: boolean, stored: string | null): string | null {
  if (running) return null;
  if (live) return errorText(live);
  return stored;
}

/** Tells screen readers when an answer begins and what it was, instead of every token. */
function Announcer({ running, messages, waiting }: { running: boolean; messages: Messages; waiting: boolean }) {
  const [text, setText] = useState("");
  const was = useRef(running);
  useEffect(() => {
    if (was.current === running) return;
    was.current = running;
    const last = messages[messages.length - 1];
    const answer = last?.getType() === "ai" ? textOf(last) : "";
    setText(running ? "The assistant is answering." : waiting ? "The assistant waits for you." : answer);
  }, [running, messages, waiting]);
  return (
    <p className="visually-hidden" role="status">
      {text}
    </p>
  );
}

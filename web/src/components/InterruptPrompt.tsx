/** The run waits for a person: to approve or reject tool calls, or to answer a question of the graph's own. */
import { type FormEvent, useState } from "react";
import { pretty } from "../messages";
import { WarningIcon } from "./Icons";

interface ActionRequest {
  name: string;
  args: unknown;
  description?: string;
}

interface Props {
  value: unknown;
  onRespond: (response: unknown) => void;
}

export function InterruptPrompt({ value, onRespond }: Props) {
  const requests = actionRequests(value);
  return (
    <section className="interrupt" aria-label="The assistant waits for you" role="group">
      <h3>
        <WarningIcon /> Waiting for you
      </h3>
      {requests ? (
        <Approval requests={requests} onRespond={onRespond} />
      ) : (
        <Question value={value} onRespond={onRespond} />
      )}
    </section>
  );
}

function actionRequests(value: unknown): ActionRequest[] | null {
  const requests = (value as { action_requests?: unknown } | null)?.action_requests;
  return Array.isArray(requests) && requests.length > 0 ? (requests as ActionRequest[]) : null;
}

function Approval({ requests, onRespond }: { requests: ActionRequest[]; onRespond: Props["onRespond"] }) {
  const [reason, setReason] = useState("");
  const decide = (decision: object) => onRespond({ decisions: requests.map(() => decision) });
  return (
    <>
      {requests.map((request, index) => (
        <div key={index} className="request">
          <p>
            The assistant wants to use <strong>{request.name}</strong>:
          </p>
          <pre>{pretty(request.args)}</pre>
        </div>
      ))}
      <label htmlFor="reason">Reason, if you reject it</label>
      <input id="reason" value={reason} onChange={(event) => setReason(event.target.value)} />
      <div className="answers">
        <button type="button" className="primary-button" autoFocus onClick={() => decide({ type: "approve" })}>
          Approve
        </button>
        <button
          type="button"
          className="secondary-button"
          onClick={() => decide({ type: "reject", ...(reason.trim() && { message: reason.trim() }) })}
        >
          Reject
        </button>
      </div>
    </>
  );
}

function Question({ value, onRespond }: Props) {
  const [answer, setAnswer] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onRespond(parsed(answer));
  };
  return (
    <form onSubmit={submit}>
      <pre>{pretty(value)}</pre>
      <label htmlFor="answer">Your answer (text or JSON)</label>
      <textarea id="answer" rows={2} autoFocus value={answer} onChange={(event) => setAnswer(event.target.value)} />
      <div className="answers">
        <button type="submit" className="primary-button" disabled={answer.trim() === ""}>
          Answer
        </button>
      </div>
    </form>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

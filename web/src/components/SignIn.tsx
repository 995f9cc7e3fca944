/** Asks for an API key, which becomes a cookie that no script can read; the key itself is not kept. */
import { type FormEvent, useState } from "react";
import { signIn } from "../api";
import { errorText } from "../messages";

export function SignIn({ onSignedIn }: { onSignedIn: () => void }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      if (await signIn(key.trim())) onSignedIn();
      else setProblem("This key is not valid.");
    } catch (error) {
      setProblem(errorText(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <form className="sign-in-card" onSubmit={(event) => void submit(event)}>
        <h1>Slipway chat</h1>
        <p className="muted">
          Open the link that <code>slipway chat-link</code> prints, or enter an API key of your workspace.
        </p>
        <label htmlFor="key">API key</label>
        <input
          id="key"
          type="password"
          autoComplete="off"
          autoFocus
          required
          value={key}
          aria-describedby={problem ? "sign-in-problem" : undefined}
          onChange={(event) => setKey(event.target.value)}
        />
        {problem && (
          <p id="sign-in-problem" className="notice error" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" className="primary-button" disabled={busy || !key.trim()}>
          Sign in
        </button>
      </form>
    </main>
  );
}

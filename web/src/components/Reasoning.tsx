/** What the model thought before it answered: open while it thinks, then folded, unless the reader says otherwise. */
import { useState } from "react";
import { ThoughtIcon } from "./Icons";

export function Reasoning({ text, thinking }: { text: string; thinking: boolean }) {
  const [chosen, setChosen] = useState<boolean | null>(null);
  const open = chosen ?? thinking;
  return (
    <div className="reasoning">
      <button type="button" className="fold" aria-expanded={open} onClick={() => setChosen(!open)}>
        <ThoughtIcon /> {thinking ? "Thinking…" : "Thought"}
      </button>
      {open && <p className="reasoning-text">{text}</p>}
    </div>
  );
}

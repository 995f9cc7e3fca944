/** One call of a tool, with what went in and what came out. */
import { useId, useState } from "react";
import { pretty } from "../messages";
import { ChevronIcon, ToolIcon } from "./Icons";
import { StatusLabel, type Status } from "./StatusLabel";

interface Props {
  name: string;
  status: Status;
  input: unknown;
  output: unknown;
}

export function ToolChip({ name, status, input, output }: Props) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const shown = pretty(output);
  return (
    <div className={open ? "tool open" : "tool"}>
      <button type="button" className="tool-head" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <ToolIcon />
        <span className="tool-name">{name}</span>
        <StatusLabel status={status} />
        <ChevronIcon />
      </button>
      {open && (
        <div className="tool-body" id={id}>
          <h4>Input</h4>
          <pre>{pretty(input) || "(none)"}</pre>
          <h4>Output</h4>
          <pre>{shown || (status === "running" ? "…" : "(none)")}</pre>
        </div>
      )}
    </div>
  );
}

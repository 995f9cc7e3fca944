/** Where a message is written. Enter sends, Shift+Enter makes a new line; while a run goes on it can be stopped. */
import { type KeyboardEvent, useLayoutEffect, useRef, useState } from "react";
import { SendIcon, StopIcon } from "./Icons";

const MAX_HEIGHT_PX = 200;

interface Props {
  running: boolean;
  disabled?: boolean;
  onSend: (text: string) => void;
  onStop: () => void;
}

export function Composer({ running, disabled = false, onSend, onStop }: Props) {
  const [text, setText] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT_PX)}px`;
  }, [text]);

  const sendable = !running && !disabled && text.trim() !== "";
  const send = () => {
    if (!sendable) return;
    onSend(text.trim());
    setText("");
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    }
  };

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label htmlFor="message" className="visually-hidden">
        Message
      </label>
      <textarea
        id="message"
        ref={field}
        rows={1}
        placeholder="Write a message"
        value={text}
        autoFocus
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {running ? (
        <button type="button" className="round-button stop" onClick={onStop} aria-label="Stop">
          <StopIcon />
        </button>
      ) : (
        <button type="submit" className="round-button" disabled={!sendable} aria-label="Send">
          <SendIcon />
        </button>
      )}
    </form>
  );
}

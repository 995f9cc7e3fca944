/** Something is on its way. */
export function TypingDots() {
  return (
    <div className="typing" aria-hidden="true">
      <span />
      <span />
      <span />
    </div>
  );
}

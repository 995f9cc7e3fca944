/** What an empty conversation shows. */
const EXAMPLES = [
  "Research LangGraph streaming and compute 42 * 17",
  "Compute (1234 + 56) / 3",
  "Count to 200",
  "Publish: our release notes",
];

export function Welcome({ onPick }: { onPick: (text: string) => void }) {
  return (
    <section className="welcome">
      <h2>What can I do for you?</h2>
      <p className="muted">A deep agent with two sub-agents, researcher and math-whiz. Every run survives a restart.</p>
      <ul className="examples">
        {EXAMPLES.map((text) => (
          <li key={text}>
            <button type="button" className="example" onClick={() => onPick(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

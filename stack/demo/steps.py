"""Steps of the demo: named, timed, shown while they run, and reported as one document."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console


class DemoError(Exception):
    """A step did not hold; says what was expected and what came."""


class Steps:
    """Shows progress on a console and keeps what is reported in the end."""

    def __init__(self, console: Console) -> None:
        self.results: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self._console = console

    @contextmanager
    def step(self, name: str, sentence: str) -> Iterator[None]:
        """One step under the key `name`; `sentence` says what is done."""
        started = time.monotonic()
        with self._console.status(f"{sentence} …"):
            try:
                yield
            finally:
                self.seconds[name] = round(time.monotonic() - started, 3)
        self._console.print(
            f"[green]✓[/green] {sentence} [dim]({self.seconds[name]:.1f} s)[/dim]", highlight=False
        )

    def say(self, text: str) -> None:
        """A line of detail."""
        self._console.print(f"  {text}", highlight=False, markup=False)

    def show(self, renderable: Any) -> None:
        self._console.print(renderable)

    def keep(self, **results: Any) -> None:
        """Report these values in the end."""
        self.results.update(results)

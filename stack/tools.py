"""Executables that come with our dependencies."""

import sys
from pathlib import Path


def tool(name: str) -> Path:
    """An executable of this installation's environment; never one that happens to be on the PATH.

    Raises:
        FileNotFoundError: the environment lacks it.
    """
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `make setup` (or `uv sync`) again.")
    return path

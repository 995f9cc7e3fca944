"""The same as `slipway demo`: run it while `make up` runs, with .venv/bin/python examples/demo.py."""

import sys

from settings import load_settings
from stack.demo.command import EXAMPLE, run_demo

if __name__ == "__main__":
    sys.exit(0 if run_demo(load_settings(), "demo", EXAMPLE, as_json="--json" in sys.argv) else 1)

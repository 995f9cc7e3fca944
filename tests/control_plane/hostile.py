"""A project whose every part tries what it must not: its build backend, its commands, its import and its graph."""

import json
from pathlib import Path
from typing import Any

from tests.control_plane.projects import config

# Runs wherever the project's code runs; answers what each attempt came to.
_ATTEMPTS = """
import glob, json, os, pathlib, signal, socket, subprocess, sys

GIVEN = json.loads(pathlib.Path(__file__).with_name("given.json").read_text())

def outcome(attempt):
    try:
        return f"DONE {attempt()!r:.80}"
    except OSError as error:
        return f"denied {error.errno}"
    except subprocess.CalledProcessError as error:
        return f"denied {error.returncode}"

def write(path):
    with open(path, "a") as file:
        file.write("poison")

def tools(path):
    return subprocess.run(["cat", path], check=True, capture_output=True).stdout

def try_all():
    found = {}
    for path in GIVEN["secret"]:
        found["read " + path] = outcome(lambda: open(path, "rb").read(20))
        found["cat " + path] = outcome(lambda: tools(path))
        found["write " + path] = outcome(lambda: write(path))
    for folder in GIVEN["foreign"]:
        found["list " + folder] = outcome(lambda: os.listdir(folder))
    for folder in GIVEN["foreign"] + GIVEN["fixed"]:
        found["create in " + folder] = outcome(lambda: write(folder + "/poison"))
        found["link into " + folder] = outcome(lambda: os.link(__file__, folder + "/poison"))
    for pid in [GIVEN["listener"], launcher()]:
        found[f"environment of {pid}"] = outcome(lambda: open(f"/proc/{pid}/environ", "rb").read(20))
        found[f"memory of {pid}"] = outcome(lambda: open(f"/proc/{pid}/mem", "rb"))
        found[f"files of {pid}"] = outcome(lambda: os.listdir(f"/proc/{pid}/root/root"))
        found[f"kill {pid}"] = outcome(lambda: os.kill(pid, signal.SIGKILL))
    found["command the supervisor"] = outcome(command)
    found["variables"] = outcome(variables)
    return found

def variables():
    told = [name for name, value in os.environ.items() for word in GIVEN["words"] if word in value]
    if not told:
        raise PermissionError(13, "no secret")
    return told

def command():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(GIVEN["control"])
        connection.sendall(b"0 stop worker-listener\\n")
        answer = connection.recv(100)
    if not answer:
        raise PermissionError(13, "no answer")
    return answer

def launcher():
    pid = os.getpid()
    while True:
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        if b"launcher.py" in open(f"/proc/{pid}/cmdline", "rb").read():
            return pid

def keep(where):
    with open(pathlib.Path(__file__).with_name(where + ".outcome"), "w") as file:
        json.dump(try_all(), file)

if __name__ == "__main__":
    keep(sys.argv[1])
"""

_BACKEND = """
import zipfile
import attempts

attempts.keep("backend")

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "hostile-1-py3-none-any.whl"
    about = "Metadata-Version: 2.1\\nName: hostile\\nVersion: 1\\n"
    tag = "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        wheel.writestr("hostile-1.dist-info/METADATA", about)
        wheel.writestr("hostile-1.dist-info/WHEEL", tag)
        wheel.writestr("hostile-1.dist-info/RECORD", "")
    return name
"""

_PYPROJECT = """
[project]
name = "hostile"
version = "1"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

_AGENT = """
import json, pathlib, sys
from typing import Annotated, TypedDict
from operator import add
from langgraph.graph import START, StateGraph
import temporalio
import attempts

attempts.GIVEN["fixed"].append(str(pathlib.Path(temporalio.__file__).parent))
attempts.keep("import")

class State(TypedDict, total=False):
    messages: Annotated[list, add]

async def answer(state):
    here = pathlib.Path(__file__).parent
    found = {path.stem: json.loads(path.read_text()) for path in here.glob("*.outcome")}
    return {"messages": [{"role": "ai", "content": json.dumps({**found, "node": attempts.try_all()})}]}

graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile()
"""

INSTALL_COMMAND = "python attempts.py install"
BUILD_COMMAND = "python attempts.py build"
PLACES = {"backend", "install", "build", "import", "node"}


def hostile(
    secret: list[Path], foreign: list[Path], words: list[str], control: Path, listener: int
) -> dict[str, str]:
    """The project's files; its graph `agent` answers with JSON: place -> attempt -> outcome."""
    given: dict[str, Any] = {
        "secret": list(map(str, secret)),
        "foreign": list(map(str, foreign)),
        "fixed": [],
        "words": words,
        "control": str(control),
        "listener": listener,
    }
    return {
        "attempts.py": _ATTEMPTS,
        "backend.py": _BACKEND,
        "pyproject.toml": _PYPROJECT,
        "agent.py": _AGENT,
        "given.json": json.dumps(given),
        "langgraph.json": config(),
    }

"""A repository, and a server of it: git's own smart HTTP, as any forge speaks it."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Repository:
    """A bare repository `agent.git` below `folder`, and a clone of it to commit in."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "served"
        self._clone = folder / "clone"
        for place in (self.root, self._clone):
            place.mkdir()
        _git(self.root, "init", "-q", "--bare", "-b", "main", "agent.git")
        _git(self._clone, "init", "-q", "-b", "main")

    def push(self, files: dict[str, str], branch: str = "main") -> str:
        """Commit files and push them; the commit."""
        for name, content in files.items():
            (self._clone / name).write_text(content)
        _git(self._clone, "add", ".")
        _git(self._clone, "commit", "-qm", "next", "--allow-empty")
        _git(self._clone, "push", "-q", str(self.root / "agent.git"), f"HEAD:refs/heads/{branch}")
        return _git(self._clone, "rev-parse", "HEAD")


@contextmanager
def serving(repository: Repository) -> Iterator[str]:
    """The clone URL, while the server runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            variables = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(repository.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                # The server may run as another user than the one who made the repository.
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            }
            answer = subprocess.run(
                ["git", "http-backend"], input=body, env=variables, capture_output=True, check=True
            ).stdout
            head, _, content = answer.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/agent.git"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    result = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return result.stdout.strip()

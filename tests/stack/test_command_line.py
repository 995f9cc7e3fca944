"""Mistakes on the command line and in settings: one sentence that names what to change, and exit code 1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack.logs import rotate
from stack.ports import PortBook
from tests.stacks import REPOSITORY


def _slipway(home: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "stack.cli", *arguments],
        env={**os.environ, "SLIPWAY_HOME": str(home), **settings},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("arguments", "settings", "named"),
    [
        (["up"], {"SLIPWAY_API_PORT": "http"}, "SLIPWAY_API_PORT"),
        (["up"], {"SLIPWAY_S3_PORT": "70000"}, "SLIPWAY_S3_PORT"),
        (["up"], {"SLIPWAY_API_PORT": "7233", "SLIPWAY_TEMPORAL_PORT": "7233"}, "SLIPWAY_TEMPORAL_PORT"),
        (["api"], {}, "DATABASE_URL"),
        (["worker", "platform"], {}, "DATABASE_URL"),
        (["demo"], {}, "slipway up"),
        (["restart", "api"], {}, "`slipway up` does not run"),
        (["keys", "list"], {}, "DATABASE_URL"),
    ],
)
def test_a_mistake_is_named_in_one_sentence(
    tmp_path: Path, arguments: list[str], settings: dict[str, str], named: str
) -> None:
    result = _slipway(tmp_path / "home", *arguments, **settings)
    assert result.returncode == 1
    assert named in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    result = _slipway(tmp_path, "worker", "something")
    assert result.returncode == 2
    assert "platform" in result.stderr


def test_a_log_over_its_limit_is_kept_once_and_starts_again(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_bytes(b"a" * 100)
    with log.open("ab") as writer:
        rotate(log, limit_bytes=50)
        writer.write(b"b")
    assert log.read_bytes() == b"b"
    assert (tmp_path / "api.log.1").read_bytes() == b"a" * 100
    rotate(log, limit_bytes=50)
    assert log.read_bytes() == b"b"


def test_inner_ports_are_remembered_and_differ(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    chosen = {name: book.choose(name) for name in ("one", "two", "three")}
    assert len(set(chosen.values())) == 3
    again = PortBook(tmp_path / "ports.json")
    assert {name: again.choose(name) for name in chosen} == chosen
    assert again.choose("one", suits=lambda port: port != chosen["one"]) != chosen["one"]

"""What cannot be started here without a container engine: checked for structure, commands, settings and files."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from compose_spec import PyCompose

from settings import Settings
from stack.settings_table import replace_table, rows
from stack.temporal import DYNAMIC_CONFIG

REPOSITORY = Path(__file__).parent.parent
COMPOSE = REPOSITORY / "docker-compose.yml"
DOCKERFILE = REPOSITORY / "Dockerfile"
OURS = ("api", "platform-worker", "listener", "bootstrap")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return document


def test_compose_file_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    assert PyCompose(yaml.safe_dump(compose)) is not None


def test_compose_services_refer_to_what_exists(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            exists = (
                (REPOSITORY / source).exists() if source.startswith(".") else source in compose["volumes"]
            )
            assert exists, f"{name} mounts {source}"
        for argument in service.get("entrypoint", []):
            if argument.startswith("/deploy/"):
                assert (REPOSITORY / argument.lstrip("/")).exists()


def test_compose_runs_every_role_with_commands_that_exist(compose: dict[str, Any]) -> None:
    commands = [compose["services"][name]["command"] for name in OURS]
    assert commands == [["api"], ["worker", "platform"], ["worker", "listener"], ["bootstrap"]]
    for command in commands:
        result = subprocess.run(
            [sys.executable, "-m", "stack.cli", *command, "--help"], capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr


def test_compose_sets_only_settings_that_exist(compose: dict[str, Any]) -> None:
    known = {variable for variable, _, _ in rows()}
    for name in OURS:
        environment = compose["services"][name]["environment"]
        assert set(environment) <= known
        assert {"TEMPORAL_ADDRESS", "DATABASE_URL", "SLIPWAY_S3_ENDPOINT_URL", "SLIPWAY_SECRET_KEYS"} <= set(
            environment
        )


def test_users_and_workers_have_an_address_each(compose: dict[str, Any]) -> None:
    environment = compose["services"]["api"]["environment"]
    public, internal = (
        environment[f"SLIPWAY_{name}_URL"].partition(":-")[2] for name in ("PUBLIC", "INTERNAL")
    )
    assert urlsplit(public.rstrip("}")).hostname not in compose["services"], "no user can resolve it"
    assert urlsplit(internal.rstrip("}")).hostname == "api"
    alone = Settings(public_url="https://agents.example.com/")
    assert alone.internal_api_url == alone.api_url == "https://agents.example.com"
    assert (
        Settings(public_url="https://a.example", internal_url="http://api/").internal_api_url == "http://api"
    )


def test_compose_holds_no_password(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|PWD|SECRET|_KEYS", variable):
                assert str(value).startswith("${"), f"{name} {variable}"


def test_temporal_is_configured_as_the_embedded_server_is() -> None:
    configured = yaml.safe_load((REPOSITORY / "deploy" / "temporal-dynamic-config.yaml").read_text())
    assert {name: str(entry[0]["value"]).lower() for name, entry in configured.items()} == DYNAMIC_CONFIG


def test_published_ports_are_on_loopback(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_image_copies_every_package_of_the_project() -> None:
    copied = set(re.findall(r"^COPY (\w+)/ ", DOCKERFILE.read_text(), re.MULTILINE))
    packages = {path.parent.name for path in REPOSITORY.glob("*/__init__.py")} - {"tests", "bench"}
    assert packages <= copied
    ignored = (REPOSITORY / ".dockerignore").read_text().split()
    assert not copied & set(ignored)


def test_operations_page_lists_every_setting_as_it_is() -> None:
    path = REPOSITORY / "docs" / "OPERATIONS.md"
    hint = "run: .venv/bin/slipway settings --write docs/OPERATIONS.md"
    assert path.read_text() == replace_table(path.read_text()), hint


def test_every_setting_says_what_it_sets() -> None:
    assert [variable for variable, _, description in rows() if not description.strip()] == []

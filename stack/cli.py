"""The `slipway` command."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from settings import Settings, load_settings
from stack.administration import keys, tenants


class Role(StrEnum):
    """Of a worker process."""

    PLATFORM = "platform"
    LISTENER = "listener"


app = typer.Typer(
    help="Slipway: deployments, agent servers, traces and exports on one machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(keys, name="keys")
app.add_typer(tenants, name="tenants")


@app.command()
def up(
    while_pid: Annotated[
        int | None, typer.Option(help="Also stop when this process ends (for scripts and tests).")
    ] = None,
) -> None:
    """Start everything in the foreground; Ctrl-C stops it."""
    from stack.run import run_in_foreground

    raise typer.Exit(run_in_foreground(Settings(), while_pid))


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Whether the stack of this home is ready: exit code 0, else 1."""
    from stack.status import print_status

    raise typer.Exit(0 if print_status(Settings().home, as_json) else 1)


@app.command()
def api() -> None:
    """Run the API alone."""
    from stack.serve import serve_api

    serve_api(_configured())


@app.command()
def worker(
    role: Annotated[Role, typer.Argument(help="What it works on.")],
    listener_id: Annotated[
        str | None,
        typer.Option(help="Which listener to be; default SLIPWAY_LISTENER_ID, else the built-in one."),
    ] = None,
) -> None:
    """Run one worker process alone."""
    from stack.serve import serve_worker

    settings = _configured()
    if listener_id:
        settings = settings.model_copy(update={"listener_id": listener_id})
    serve_worker(role, settings)


@app.command()
def bootstrap() -> None:
    """Prepare servers of your own: schema, first workspace and key, search attributes, bucket."""
    from stack.run import bootstrap_configured

    raise typer.Exit(bootstrap_configured(_configured()))


@app.command()
def settings(
    write: Annotated[Path | None, typer.Option(help="Write the table into this document.")] = None,
) -> None:
    """Every setting with its default."""
    from stack.settings_table import markdown, write_table

    if write:
        write_table(write)
    else:
        typer.echo(markdown())


@app.command()
def demo(
    name: Annotated[str, typer.Option(help="Name of the deployment.")] = "demo",
    agent: Annotated[Path | None, typer.Option(help="Folder of the agent; default: the example.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Deploy the example agent, run it, export its traces, read the files. Needs a running stack."""
    from stack.demo.command import EXAMPLE, run_demo

    raise typer.Exit(0 if run_demo(load_settings(), name, agent or EXAMPLE, as_json) else 1)


@app.command("chat-link")
def chat_link() -> None:
    """Print an address that signs a browser in to the chat; it works for a day."""
    from stack.chat import new_chat_link

    try:
        typer.echo(asyncio.run(new_chat_link(load_settings())))
    except (RuntimeError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


def _control(action: str, process: str) -> None:
    from stack.control import send_command

    try:
        answer = asyncio.run(send_command(Settings().home.absolute(), action, process))
    except (ConnectionError, FileNotFoundError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{process}: {answer}")
    if answer.startswith("error"):
        raise typer.Exit(1)


@app.command()
def stop(process: str) -> None:
    """Stop one process of the running stack, until `slipway start`."""
    _control("stop", process)


@app.command()
def start(process: str) -> None:
    """Start a process that `slipway stop` stopped."""
    _control("start", process)


@app.command()
def restart(process: str) -> None:
    """Stop and start one process of the running stack."""
    _control("restart", process)


def _configured() -> Settings:
    from stack.logs import configure_logging

    settings = load_settings()
    configure_logging(settings)
    try:
        settings.require_database_url()
    except RuntimeError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
    return settings


def main() -> None:
    """Entry point of the command `slipway`."""
    try:
        app()
    except ValidationError as error:
        if error.title != Settings.__name__:
            raise
        for problem in error.errors():
            name = str(problem["loc"][0])
            variable = name if name.isupper() else f"SLIPWAY_{name.upper()}"
            typer.echo(f"Error: {variable}: {problem['msg']}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

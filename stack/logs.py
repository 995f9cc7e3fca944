"""Logging of our own processes: structlog, to standard error, one event name and its fields per line."""

import logging
import shutil
import sys
from pathlib import Path

import structlog

from settings import Settings

# Of each process's output the newest part is kept: one full file and the one being written.
_ROTATE_AT_BYTES = 20 * 1024 * 1024


def configure_logging(settings: Settings) -> None:
    """Level and format from the settings; libraries that use `logging` go the same way."""
    level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # Not the pretty one: it prints local variables, and with them secrets.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer]
        if settings.log_format == "json"
        else [*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))


def rotate(path: Path, limit_bytes: int = _ROTATE_AT_BYTES) -> None:
    """Move a log that grew over the limit to `<name>.1` by copying: its writer keeps its open file."""
    if path.exists() and path.stat().st_size > limit_bytes:
        shutil.copyfile(path, path.with_name(path.name + ".1"))
        path.with_name(path.name + ".1").chmod(0o600)
        with path.open("r+") as file:
            file.truncate(0)

"""What a command answers when it did nothing (streaming contract §1.3)."""

from pydantic import ValidationError


class CommandError(Exception):
    """`code` is one of the protocol's error codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid(message: str) -> CommandError:
    return CommandError("invalid_argument", message)


def sentence_of(error: ValidationError) -> str:
    """The first thing that is wrong, as a sentence that names the place."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])

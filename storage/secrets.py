"""Encryption of secrets at rest: Fernet, with rotation."""

import os
import tempfile
from pathlib import Path
from typing import Any

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

KEY_FILE = "secret-keys"


class UndecryptableSecretError(Exception):
    """A stored secret was encrypted with a key that is no longer configured."""


class SecretBox:
    """Encrypts JSON values. The newest key encrypts; every key decrypts."""

    def __init__(self, keys: list[str]) -> None:
        if not keys:
            raise ValueError("At least one secret key is needed.")
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def encrypt(self, value: Any) -> bytes:
        return self._fernet.encrypt(orjson.dumps(value))

    def decrypt(self, token: bytes | memoryview) -> Any:
        """The value.

        Raises:
            UndecryptableSecretError: none of the keys fits.
        """
        try:
            return orjson.loads(self._fernet.decrypt(bytes(token)))
        except InvalidToken:
            raise UndecryptableSecretError(
                "A stored secret cannot be decrypted: add the key it was written with to SLIPWAY_SECRET_KEYS."
            ) from None

    def rotate(self, token: bytes | memoryview) -> bytes:
        """The same secret under the newest key."""
        return self._fernet.rotate(bytes(token))


def load_secret_box(configured: str | None, home: Path) -> SecretBox:
    """From the setting, else from `home/secret-keys`, which is made (mode 0600) when it is missing."""
    if configured:
        return SecretBox([key.strip() for key in configured.split(",") if key.strip()])
    path = home / KEY_FILE
    if not path.exists():
        _create_key_file(path)
    return SecretBox(path.read_text().split())


def _create_key_file(path: Path) -> None:
    """Written aside and linked into place: of several processes that start at once, one wins and all read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "w") as file:
        file.write(Fernet.generate_key().decode() + "\n")
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        Path(draft).unlink()

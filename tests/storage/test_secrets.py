"""Secrets at rest: encryption, rotation, the key file."""

import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from storage.secrets import KEY_FILE, SecretBox, UndecryptableSecretError, load_secret_box


def test_secret_is_readable_only_with_its_key() -> None:
    mine, other = SecretBox([Fernet.generate_key().decode()]), SecretBox([Fernet.generate_key().decode()])
    stored = mine.encrypt({"password": "hunter2"})
    assert b"hunter2" not in stored
    assert mine.decrypt(stored) == {"password": "hunter2"}
    with pytest.raises(UndecryptableSecretError, match="SLIPWAY_SECRET_KEYS"):
        other.decrypt(stored)


def test_new_key_in_front_encrypts_and_the_old_one_still_decrypts() -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    stored = SecretBox([old]).encrypt("secret")
    both = SecretBox([new, old])
    assert both.decrypt(stored) == "secret"
    rotated = both.rotate(stored)
    assert SecretBox([new]).decrypt(rotated) == "secret"
    assert SecretBox([new]).decrypt(both.encrypt("later")) == "later"


def test_key_file_is_private_and_made_once_by_whoever_comes_first(tmp_path: Path) -> None:
    boxes: list[SecretBox] = []
    threads = [
        threading.Thread(target=lambda: boxes.append(load_secret_box(None, tmp_path))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = boxes[0].encrypt("shared")
    assert [box.decrypt(stored) for box in boxes] == ["shared"] * 8
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_configured_keys_win_over_the_file(tmp_path: Path) -> None:
    key = Fernet.generate_key().decode()
    stored = load_secret_box(f" {key} ,{Fernet.generate_key().decode()}", tmp_path).encrypt(1)
    assert SecretBox([key]).decrypt(stored) == 1
    assert not list(tmp_path.iterdir())

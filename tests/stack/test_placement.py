"""Under root PostgreSQL lives where its own user can reach it, and no existing permission changes."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stack.postgres_user import ELSEWHERE
from tests.stacks import end, free_port_environment, launch, make_home, wait_ready

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root needs a system user for PostgreSQL")


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that nobody but root may enter."""
    folder = make_home()
    folder.chmod(0o700)
    yield folder
    pointer = folder / "home" / "postgres-location"
    if pointer.exists() and Path(pointer.read_text().strip()).parent == ELSEWHERE:
        shutil.rmtree(pointer.read_text().strip())
    shutil.rmtree(folder)


def test_a_home_that_the_postgres_user_cannot_reach_keeps_its_data_elsewhere(closed_folder: Path) -> None:
    environment = {"SLIPWAY_HOME": str(closed_folder / "home"), **free_port_environment()}
    for start in range(2):
        process = launch(environment, while_pid=os.getpid())
        try:
            stack = wait_ready(environment, process)
            with psycopg.connect(stack.database_url) as connection:
                assert connection.execute("SELECT count(*) FROM tenants").fetchone() == (1,), f"start {start}"
        finally:
            end(process.pid)
    location = Path((stack.home / "postgres-location").read_text().strip())
    assert location.parent == ELSEWHERE
    assert stat.S_IMODE(location.stat().st_mode) == 0o700
    assert stat.S_IMODE(closed_folder.stat().st_mode) == 0o700
    assert str(location) in Path(environment["SLIPWAY_HOME"] + ".up.log").read_text()

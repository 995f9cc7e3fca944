"""The page that is shipped is the one that the source makes."""

import subprocess
from pathlib import Path

from api.chat.page import BUILT


def test_committed_page_is_a_fresh_build_of_its_source(web: Path, tmp_path: Path) -> None:
    built = tmp_path / "built"
    subprocess.run(["npx", "tsc", "--noEmit"], cwd=web, check=True, timeout=300)
    subprocess.run(["npx", "vite", "build", "--outDir", str(built)], cwd=web, check=True, timeout=300)
    assert _files(built) == _files(BUILT), "run `make page` and commit what it changes"


def test_committed_page_names_no_other_host() -> None:
    index = (BUILT / "index.html").read_text()
    assert "http://" not in index and "https://" not in index
    assert "<script>" not in index and "style=" not in index


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

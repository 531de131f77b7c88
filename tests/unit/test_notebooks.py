"""The notebooks of the documentation run from start to end, what they assert holds, and they show what is stored in them.

What they show is renewed with HOLDFAST_RENEW_GOLDEN=1.
"""

import copy
import os
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
SECONDS = re.compile(r"\b\d+\.\d{3}\b")


def _outputs(notebook: Any) -> list[list[dict[str, str]]]:
    """Return what each cell shows as text, without pictures and times."""
    return [
        [
            {mime: SECONDS.sub("...", text) for mime, text in output.get("data", output).items() if "text" in mime}
            for output in cell.get("outputs", [])
        ]
        for cell in notebook.cells
    ]


def test_there_is_one() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_is_stored(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat, *_ = (
        pytest.importorskip(module, reason=f"{module}, of the extras `notebook` and `test`, is not installed")
        for module in ("nbclient", "nbformat", "ipykernel", "matplotlib", "palmerpenguins")
    )
    for folder in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    stored = nbformat.read(path, as_version=4)
    run = copy.deepcopy(stored)
    resources = {"metadata": {"path": str(path.parent)}}
    client = nbclient.NotebookClient(run, timeout=300, kernel_name="python3", record_timing=False, resources=resources)
    client.execute()
    run.metadata = stored.metadata
    if os.environ.get("HOLDFAST_RENEW_GOLDEN"):
        nbformat.write(run, path)
        stored = run
    nbformat.validate(stored)
    assert any("<table>" in str(cell) for cell in _outputs(stored))
    assert _outputs(run) == _outputs(stored)

"""Each notebook runs from top to bottom and prints what its metadata promise."""

import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def printed(notebook):
    """All that the code cells wrote to stdout."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")


def make_fast(notebook):
    """Puts the small sizes of its metadata in the place of those that the reader sees."""
    for shown, fast in notebook.metadata["tf_layernorm"]["fast"].items():
        cells = [cell for cell in notebook.cells if shown in cell.source]
        assert len(cells) == 1, f"one cell must hold: {shown}"
        cells[0].source = cells[0].source.replace(shown, fast)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_prints_what_it_promises(path, monkeypatch, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    expected = notebook.metadata["tf_layernorm"]["expect"]
    assert expected in printed(notebook), "the kept outputs lack the promised text"
    assert path.stat().st_size < 180_000
    make_fast(notebook)
    # The kernel is another process: what it needs goes through the environment.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    shutil.copytree(path.parents[1] / "docs", tmp_path / "docs", dirs_exist_ok=True)
    (tmp_path / "notebooks").mkdir()
    resources = {"metadata": {"path": str(tmp_path / "notebooks")}}
    client = NotebookClient(
        notebook, timeout=600, startup_timeout=300, kernel_name="python3", resources=resources
    )
    client.execute()
    assert expected in printed(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_says_what_it_shows_and_how_long_it_takes(path):
    cells = nbformat.read(path, as_version=4).cells
    assert "**Takeaway: " in cells[0].source and "minute" in cells[0].source
    assert "pip install" in cells[1].source
    assert cells[-1].source.startswith("## Key points") or "## Key points" in cells[-2].source

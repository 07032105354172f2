"""Each notebook runs from top to bottom and prints what its metadata promise."""

import os
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_prints_what_it_promises(path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    expected = notebook.metadata["tf_layernorm"]["expect"]
    assert expected in printed(notebook), "the kept outputs lack the promised text"
    assert path.stat().st_size < 150_000
    # The kernel is another process: what it needs goes through the environment.
    monkeypatch.setenv("TF_LAYERNORM_FAST", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources)
    client.execute()
    assert expected in printed(notebook)

"""The notebooks in examples/ run from top to bottom, each in a kernel of its own, and are stored without results."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.evidence import for_evidence

FOLDER = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3


# The kernel talks over sockets of zmq, whose event loop warns on some systems.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", [NOTEBOOKS[0], *for_evidence(*NOTEBOOKS[1:])], ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert all(cell.get("outputs", []) == [] for cell in notebook.cells), "store notebooks without their results"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = {kind for cell in notebook.cells for each in cell.get("outputs", []) for kind in each.get("data", {})}
    assert "text/html" in shown or "application/vnd.plotly.v1+json" in shown
    # Files of a notebook are in its own folder.
    assert {each.name for each in tmp_path.iterdir()} <= {"people.csv"}

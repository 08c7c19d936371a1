"""``nearveil datasets``: what is there, what is not, and how it is fetched."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearveil.io.datasets import CACHE_DIR_VARIABLE, DATA_DIR_VARIABLE, SNAP_FILES, SnapFile
from tests.cli.conftest import Run
from tests.io.file_server import FileServer, serving, snap_file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture
def server(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A mirror with both files, of 100 check-ins each."""
    del cache
    content = snap_file(100)
    for name, sha256 in (("brightkite", None), ("gowalla", hashlib.sha256(content).hexdigest())):
        monkeypatch.setitem(SNAP_FILES, name, SnapFile(SNAP_FILES[name].name, 100, sha256))
    with serving(FileServer(content)) as running:
        yield running


def test_fetch_both_and_list_them(run: Run, cache: Path, server: FileServer) -> None:
    outcome = run("datasets", "fetch", "--from", server.url)
    assert (outcome.code, outcome.err) == (0, "")
    assert "no SHA-256 is known for this file" in outcome.out
    assert "its SHA-256 is the one expected" in outcome.out
    assert hashlib.sha256(server.content).hexdigest() in outcome.out
    assert {path.name for path in cache.iterdir()} >= {file.name for file in SNAP_FILES.values()}
    listed = json.loads(run("datasets", "--json", "--statistics").out)["datasets"]
    facts = {each["name"]: each for each in listed}
    assert facts["brightkite"]["people"] == 100
    assert facts["brightkite"]["source"] == "SNAP original"
    assert facts["brightkite"]["path"] == str(cache / SNAP_FILES["brightkite"].name)
    assert facts["brightkite"]["statistics"]["places"] == 100
    assert facts["gaussian"]["path"] is None
    assert "statistics" not in json.loads(run("datasets", "--json").out)["datasets"][0]
    assert run("datasets", "fetch", "--from", "http://127.0.0.1:1/").out.count("already there") == 2


def test_fetch_one_into_a_folder(run: Run, cache: Path, server: FileServer, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    outcome = run("datasets", "fetch", "gowalla", "gowalla", "--to", folder, "--from", server.url.rstrip("/"))
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("gowalla: ") == 1
    assert outcome.out.endswith(f"To use it: --data-dir {folder}\n")
    assert [asked["Host"] for asked in server.asked] == [server.url.split("/")[2]]
    assert not cache.exists()
    assert "SNAP original" in run("datasets", "--data-dir", folder).out
    statistics = run("datasets", "--data-dir", folder, "--statistics").out
    assert "Clark–Evans" in statistics


def test_no_network_is_one_sentence(run: Run, cache: Path) -> None:
    outcome = run("datasets", "fetch", "--from", "http://127.0.0.1:1/")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith("error: 127.0.0.1 cannot be reached, or broke off; download loc-brightkite")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--sha256", "0" * 64), 2, "--sha256 is for one file; name the population to download"),
        (("gowalla", "--sha256", "12"), 2, "64 hexadecimal digits"),
        (("gowalla", "--from", "file:///tmp/"), 2, "https:// or http://"),
        (("gaussian",), 2, "gaussian"),
        (("gowalla", "--sha256", "0" * 64), 3, "does not have the SHA-256 expected"),
    ],
)
def test_mistakes(run: Run, server: FileServer, arguments: tuple[str, ...], code: int, words: str) -> None:
    outcome = run("datasets", "fetch", *(() if "--from" in arguments else ("--from", server.url)), *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_a_damaged_file_is_listed_as_such(run: Run, cache: Path) -> None:
    cache.mkdir()
    (cache / SNAP_FILES["gowalla"].name).write_bytes(snap_file()[:-1])
    outcome = run("datasets")
    assert outcome.code == 0
    assert "cannot be used: " in outcome.out
    assert "remove it and fetch it again" in outcome.out
    problem = json.loads(run("datasets", "--json").out)["datasets"][3]
    assert problem["people"] is None
    assert "damaged" in problem["problem"]

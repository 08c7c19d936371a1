"""The image, as far as it can be had without a container engine: its steps are run in a folder, and it is started."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.image import ROOT, Image, built, make_read_only, make_writable, stages

# Noted is what Python opens for writing, makes, moves or deletes, and the files that SQLite opens.
_NOTE_WRITES = """
import os, sys
_noted = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
def _note(event, arguments):
    if event == "open":
        if isinstance(arguments[0], int) or not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event not in ("os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "sqlite3.connect"):
        return
    os.write(_noted, f"{{event}} {{os.fsdecode(arguments[0])}}\\n".encode())
sys.addaudithook(_note)
"""
_LONGEST_S = 120


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Below a folder that others may enter, unlike a test's own."""
    folder = Path(tempfile.mkdtemp(prefix="nearveil-image-"))
    try:
        yield built(folder / "root")
    finally:
        make_writable(folder)
        shutil.rmtree(folder)


@pytest.mark.evidence
def test_the_steps_build_a_service_that_starts_read_only_and_writes_its_data_alone(image: Image) -> None:
    app, data, empty = (image.inside(path) for path in ("/opt/nearveil", "/data", "/empty"))
    empty.mkdir()
    notes = image.root.parent / "notes.txt"
    hook = image.root.parent / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(_NOTE_WRITES.format(path=str(notes)))
    assert len(list(app.rglob("*.nbc"))) > 10
    make_read_only(app)
    make_read_only(empty)
    last = stages()[-1]
    environment = {**image.environment, "PATH": os.environ["PATH"], "HOME": str(empty), "PYTHONPATH": str(hook)}
    environment |= {"NEARVEIL_PORT": "0", "NEARVEIL_REGION": "berlin"}
    environment.pop("NUMBA_CPU_NAME")
    command = [str(app / "bin" / "python"), str(app / "bin" / "nearveil"), *_words(last.values("CMD")[0])]
    log = image.root.parent / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*_without_rights(), *command], cwd=data, env=environment, stdout=subprocess.PIPE, stderr=output, text=True
        )
    watchdog = threading.Timer(_LONGEST_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        port = next((line.rpartition(":")[2].strip() for line in process.stdout if " on http://" in line), None)
        assert port, log.read_text()
        probe = _words(last.values("HEALTHCHECK")[0].partition("CMD ")[2])
        here = [str(image.inside(word)) if word.startswith("/") else word for word in probe]
        while subprocess.run(here, env={"NEARVEIL_PORT": port}, check=False, capture_output=True).returncode:
            assert process.poll() is None, log.read_text()
        healthy = subprocess.run([*here, "/healthz"], env={"NEARVEIL_PORT": port}, check=False).returncode
        missing = subprocess.run([*here, "/v1/ledger"], env={"NEARVEIL_PORT": port}, check=False).returncode
        process.send_signal(signal.SIGTERM)
        assert process.wait(_LONGEST_S) == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert (healthy, missing) == (0, 1)
    assert (data / "platform-key.txt").exists()
    assert list(empty.iterdir()) == []
    written = {line.split(" ", 1)[1] for line in notes.read_text().splitlines()}
    # Numba tries whether it can write beside the package and at home; it cannot, and nothing has changed there.
    allowed = (str(data), str(app), str(empty), ":memory:", "/dev/null")
    assert [path for path in written if not path.startswith(allowed)] == []


def _without_rights() -> list[str]:
    """What takes root's right to write where nobody may; another user does not have it."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]


def _words(step: str) -> list[str]:
    return re.findall(r'"([^"]*)"', step)


def test_the_image_has_no_root_and_no_step_that_needs_it() -> None:
    first, last = stages()
    assert last.values("USER") == ["10001:10001"]
    assert last.values("RUN") == []
    assert last.values("VOLUME") == last.values("WORKDIR") == ["/data"]
    assert any("--chown=10001:10001" in rest and rest.endswith(" /data") for rest in last.values("COPY"))
    # Paths in steps are variables: the test above could not run them in a folder otherwise.
    for rest in first.values("RUN"):
        assert not re.search(r"(?<![\w$\"}.])/(?!dist)\w", rest.replace('"$BUILD"/', "")), rest


def test_only_what_the_dockerfile_copies_is_sent_to_the_engine() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        origin
        for stage in stages()
        for rest in stage.values("COPY")
        if "--from=" not in rest
        for origin in rest.split()[:-1]
    }
    assert lines[0] == "*"
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.evidence
def test_the_data_folder_is_private(image: Image) -> None:
    assert stat.S_IMODE(image.inside("/data").stat().st_mode) == 0o700

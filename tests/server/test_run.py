"""A real server process: it starts with nothing, and stopping it loses nothing that was acknowledged."""

import os
import signal
import stat
import threading
from pathlib import Path

import httpx
import pytest

from nearveil.errors import OutputError, UsageError
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.server.auth import Access
from nearveil.server.run import address_of, first_platform_key, listen, make_data_folder
from nearveil.server.settings import Settings
from tests.nearby.stores.kept import everything_kept
from tests.server.running import HERE
from tests.server.served import Served, nearveil, served
from tests.waiting import PATIENCE_S


def _settings(**options: object) -> Settings:
    return Settings.load(None, {}, {"region": "san-francisco", **options})


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder = make_data_folder(_settings(store=str(tmp_path / "data" / "nearveil.db")))
    assert folder == tmp_path / "data"
    assert _mode(folder) == 0o700
    assert make_data_folder(_settings(store="postgresql://localhost/nearveil")) is None


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be created"):
        make_data_folder(_settings(store=str(tmp_path / "file" / "nearveil.db")))


def test_an_empty_store_gets_one_key_in_a_file_for_its_owner(tmp_path: Path) -> None:
    store = SqliteStore.in_memory()
    path = first_platform_key(store, tmp_path)
    assert path is not None
    assert _mode(path) == 0o600
    secret = path.read_text().strip()
    assert Access(store, b"0" * 32).identify(f"Bearer {secret}").kind == "platform"
    assert secret.encode() not in store.keys()[0].digest
    # Once there is a key, none is made; nor for a database that several processes share.
    assert first_platform_key(store, tmp_path) is None
    assert first_platform_key(SqliteStore.in_memory(), None) is None


def test_a_port_in_use_is_one_sentence() -> None:
    with listen(_settings(port=0)) as first:
        address = address_of(first)
        port = first.getsockname()[1]
        assert address == f"http://127.0.0.1:{port}"
        with pytest.raises(UsageError, match="choose another --port"):
            listen(_settings(port=port))
    with pytest.raises(UsageError, match="another --host"):
        listen(_settings(host="no.such.host.invalid"))


def _report_until_refused(service: Served, person: str, acknowledged: dict[str, str], begun: threading.Event) -> None:
    """Report new places one after the other until nobody listens; note each receipt that came back."""
    with httpx.Client(headers={"Authorization": f"Bearer {service.key}"}, timeout=PATIENCE_S) as client:
        for number in range(100_000):
            place = {"latitude": 37.6 + (number % 100) * 0.002, "longitude": -122.4}
            previous = {"previous": acknowledged[person]} if number else {}
            try:
                answer = client.put(f"{service.address}/v1/people/{person}/location", json={**place, **previous})
            except httpx.TransportError:
                return
            if answer.status_code != 202:
                return
            acknowledged[person] = answer.json()["receipt"]
            if number == 3:
                begun.set()


@pytest.mark.evidence
def test_stopping_under_load_loses_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    people = [f"person-{each}" for each in range(4)]
    begun = [threading.Event() for _ in people]
    with served(tmp_path) as service:
        service.call("POST", "/v1/people", json={"ids": people})
        threads = [
            threading.Thread(target=_report_until_refused, args=(service, person, acknowledged, event))
            for person, event in zip(people, begun, strict=True)
        ]
        for thread in threads:
            thread.start()
        assert all(event.wait(PATIENCE_S) for event in begun)
        assert service.stop(signal.SIGTERM) == 0
        for thread in threads:
            thread.join()
    store = SqliteStore(tmp_path / "nearveil-data" / "nearveil.db")
    try:
        for person in people:
            record = everything_kept(store, person)
            assert record is not None
            assert acknowledged[person] == record["receipt"]
    finally:
        store.close()


# -- another uvicorn ---------------------------------------------------------------------------------------------------


def _other_uvicorn(folder: Path, change: str) -> dict[str, str]:
    """Return the environment of a process whose uvicorn is changed before anything of Nearveil is imported."""
    lines = "from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol"
    (folder / "sitecustomize.py").write_text(f"{lines}\n{change}\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


_WITHOUT_LIMITS = """
import httptools, types
original = Protocol.__init__
def __init__(self, *arguments, **options):
    original(self, *arguments, **options)
    parts = types.SimpleNamespace(**{
        name: types.MethodType(getattr(Protocol, name), self) for name in dir(Protocol) if name.startswith("on_")
    })
    self.parser = httptools.HttpRequestParser(parts)
Protocol.__init__ = __init__
"""


@pytest.mark.evidence
def test_a_uvicorn_that_cannot_be_limited_needs_a_proxy(tmp_path: Path) -> None:
    """Its parser calls uvicorn's own methods, whatever a subclass has in place of them."""
    environment = _other_uvicorn(tmp_path, _WITHOUT_LIMITS)
    refused = nearveil("serve", "--port", "0", "--region", "berlin", folder=tmp_path, env=environment)
    assert refused.returncode == 2
    assert "does not let Nearveil limit connections and headers" in refused.stderr
    assert "Traceback" not in refused.stderr
    with served(tmp_path, env={**environment, "NEARVEIL_LIMITS_IN_PROXY": "true"}) as service:
        assert service.call("POST", "/v1/nearby", json={**HERE, "k": 1}).json() == {"ids": []}
        assert "no limits on connections, uvicorn is not known" in service.events()

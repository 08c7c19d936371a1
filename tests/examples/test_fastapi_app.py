"""The example app: from a table of users to a protected endpoint, as its guide says."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.services.postgres import postgis_cluster, private_database
from tests.services.running import free_port

__all__ = ["postgis_cluster"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi-app"
PEOPLE = 300
HERE = {"latitude": 37.76, "longitude": -122.44}


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLE / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fastapi_app"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def database(postgis_cluster: object) -> Iterator[str]:
    """What the app has before: users with true locations, and sessions."""
    del postgis_cluster
    with private_database() as address:
        statements = (EXAMPLE / "users.sql").read_text(encoding="utf-8").replace(":people", str(PEOPLE))
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "\n".join(line for line in statements.splitlines() if not line.startswith("\\")).encode()
            )
        yield address


def _sessions(database: str) -> list[tuple[str, str]]:
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT token, user_id::text FROM sessions ORDER BY user_id").fetchall()
    return [(token, who) for token, who in rows]


def _sign_in_code(database: str, who: str) -> str:
    with psycopg.connect(database) as connection:
        made = connection.execute("INSERT INTO sign_in_codes (user_id) VALUES (%s) RETURNING code", (int(who),))
        return str(made.fetchall()[0][0])


def _nearveil(*arguments: str, **environ: str) -> None:
    command = [sys.executable, "-c", "from nearveil.cli.main import main; main()", *arguments]
    subprocess.run(command, check=True, env={**os.environ, **environ}, capture_output=True)


def test_as_the_guide_says(database: str, tmp_path: Path) -> None:
    keys = str(tmp_path / "keys.json")
    _nearveil("keys", "create", keys)
    wanted = ("--table", "users", "--id", "id", "--location", "location", "--keys", keys, "--region", "san-francisco")
    _nearveil("import", *wanted, NEARVEIL_IMPORT_FROM=database, NEARVEIL_STORE=database)
    (token, who), *_ = _sessions(database)
    app = _loaded().create_app(database, keys, lambda: 2_000_000_000.0)

    async def use() -> None:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://app") as me,
        ):
            assert (await me.post("/nearby", json=HERE)).status_code == 401
            me.headers["Authorization"] = f"Bearer {token}"
            found = (await me.post("/nearby", json={**HERE, "k": 20})).json()
            assert len({one["id"] for one in found}) == 20
            assert all(set(one) == {"id", "name"} for one in found)
            assert who not in {one["id"] for one in found}
            # In an address a place would be in access logs.
            assert (await me.get("/nearby", params=HERE)).status_code == 405

            blocked = found[0]["id"]
            assert (await me.put(f"/me/blocked/{blocked}")).json() == {"blocked": True}
            assert found[0] not in (await me.post("/nearby", json={**HERE, "k": 20})).json()
            assert (await me.delete(f"/me/blocked/{blocked}")).json() == {"blocked": False}
            assert (await me.post("/nearby", json={**HERE, "k": 20})).json() == found
            assert (await me.put(f"/me/blocked/{who}")).status_code == 404

            first = await me.put("/me/location", json=HERE)
            assert first.status_code == 200
            # Somebody with the session alone, and then the phone.
            assert (await me.put("/me/location", json=HERE)).status_code == 409
            again = await me.put("/me/location", json={**HERE, "previous": first.json()["receipt"]})
            assert again.status_code == 200
            assert (await me.put("/me/location", json={"latitude": 0, "longitude": 0})).status_code == 422
            assert (await me.post("/nearby", json={"latitude": 0, "longitude": 0})).status_code == 422

            # A new phone: it has no receipt, and the lost one is signed out.
            assert (await me.put("/me/location", json=HERE)).status_code == 409
            code = {"code": _sign_in_code(database, who)}
            new = await me.post("/sessions", json=code)
            assert new.status_code == 200
            assert (await me.put("/me/location", json=HERE)).status_code == 401
            me.headers["Authorization"] = f"Bearer {new.json()['token']}"
            assert (await me.put("/me/location", json=HERE)).status_code == 200
            # The code does not work again, nor does it sign anybody out.
            assert (await me.post("/sessions", json=code)).status_code == 401
            assert (await me.put("/me/location", json=HERE)).status_code == 409

            nearby = app.state.nearby
            assert len(nearby) == PEOPLE
            assert (await me.delete("/me/location")).json() == {"hidden": True}
            assert len(nearby) == PEOPLE - 1
            assert (await me.delete("/me")).json() == {"deleted": True}
            assert (await me.post("/nearby", json=HERE)).status_code == 401
            assert nearby.export(who) is None

    asyncio.run(use())


def _start_and_stop(example: Path, database: str) -> None:
    """Until it answers: who is not signed in is refused."""
    port = str(free_port())
    environ = {
        **os.environ,
        "DATABASE_URL": database,
        "PORT": port,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with subprocess.Popen([example / "start.sh"], env=environ, stderr=subprocess.PIPE, text=True) as app:
        try:
            assert app.stderr is not None
            lines: list[str] = []
            for line in app.stderr:
                lines.append(line)
                if "Uvicorn running" in line:
                    break
            assert app.poll() is None, "".join(lines)
            assert httpx.post(f"http://127.0.0.1:{port}/nearby", json=HERE).status_code == 401
        finally:
            app.terminate()


@pytest.mark.evidence
def test_it_starts_with_one_command_and_imports_once(database: str, tmp_path: Path) -> None:
    example = tmp_path / "fastapi-app"
    shutil.copytree(EXAMPLE, example, ignore=shutil.ignore_patterns("keys.json", "imported"))
    _start_and_stop(example, database)
    assert (example / "keys.json").stat().st_mode & 0o777 == 0o600
    with psycopg.connect(database) as connection:
        assert connection.execute("DELETE FROM nearveil.people").rowcount == PEOPLE
    # Who has left is not brought back.
    _start_and_stop(example, database)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT id FROM nearveil.people").fetchall() == []


def test_without_a_database_it_says_what_to_set(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = subprocess.run(
        [EXAMPLE / "start.sh"], env=environ, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode != 0
    assert "set DATABASE_URL" in done.stderr

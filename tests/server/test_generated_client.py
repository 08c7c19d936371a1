"""A client that a public generator makes of the description works against a running service."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.console_service import served
from tests.server.running import HERE, Running, running

PACKAGE = "nearveil_client"
GENERATOR = Path(__file__).parents[2] / "build" / "generator" / "bin" / "openapi-python-client"


@pytest.fixture
def here() -> Iterator[Running]:
    with running(test_hooks=True, chained_reports="always") as service:
        yield service


@pytest.fixture
def generated(here: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a module of the generated package."""
    if not GENERATOR.exists():
        pytest.skip("the generator is not installed; 'make evidence' does that")
    document, settings = tmp_path / "openapi.json", tmp_path / "settings.yaml"
    document.write_text(json.dumps(here.call("GET", "/openapi.json").json()))
    settings.write_text("post_hooks: []\n")
    command = [GENERATOR, "generate", "--path", document, "--config", settings, "--meta", "none"]
    done = subprocess.run(
        [*map(str, command), "--output-path", str(tmp_path / PACKAGE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.mark.evidence
def test_create_report_ask_and_delete(here: Running, generated: Any) -> None:
    def call(tag: str, operation: str, *values: Any, **named: Any) -> Any:
        return generated(f"api.{tag}.{operation}").sync(*values, client=client, **named)

    models, kind = generated("models"), generated("client").AuthenticatedClient
    with served(here.service) as address, kind(base_url=address, token=here.key) as client:
        assert call("people", "add_person", "ann").created is True
        assert call("people", "add_people", body=models.PeopleToAdd(ids=["bob", "eve"])).created == 2
        taken = call("locations", "report_location", "ann", body=models.Place(**HERE, previous="0" * 24))
        assert (taken.status, len(taken.receipt)) == ("taken", 24)
        reports = [models.LocationReport(id=who, **HERE) for who in ("bob", "nobody", "ann")]
        answers = call("locations", "report_locations", body=models.LocationReports(reports=reports)).answers
        assert [type(one).__name__ for one in answers] == ["ReportTaken", "Problem", "Problem"]
        assert [one.status for one in answers[1:]] == [404, 409]
        call("operator", "advance_epoch")
        question = models.Question(**HERE, k=5, asker="ann", exclude=["eve"])
        assert call("locations", "ask_nearby", body=question).ids == ["bob"]
        record = call("people", "export_person", "ann")
        assert (record.id, record.created.tzinfo is not None) == ("ann", True)
        assert abs(record.published.latitude - HERE["latitude"]) < 1
        refused = call("locations", "ask_nearby", body=models.Question(latitude=1.0, longitude=1.0))
        assert (refused.status, refused.type_) == (422, "urn:nearveil:problem:outside-region")
        assert call("people", "erase_person", "ann") is None
        assert call("people", "export_person", "ann").status == 404

"""compose.yaml, systemd unit and workflows: what they set exists, and they are locked down."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nearveil.server.settings import Settings
from tests.deploy.image import stages

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "nearveil.service"


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def compose() -> dict[str, Any]:
    """compose.yaml, with the defaults of its variables."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / "compose.yaml").read_text(encoding="utf-8"))
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def variables_of(where: str) -> dict[str, str]:
    """Return what a way to deploy gives the service."""
    image = {name: value for name, value in stages()[-1].environment.items() if name.startswith("NEARVEIL_")}
    if where == "image":
        return image
    if where == "systemd":
        lines = UNIT.with_name("nearveil.env").read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    given = compose()["services"]["nearveil"]["environment"]
    return image | {name: value for name, value in given.items() if name.startswith("NEARVEIL_")}


@pytest.mark.parametrize("where", ["image", "compose", "systemd"])
def test_variables_are_settings_of_the_service(where: str) -> None:
    """A misspelt one, or a wrong value, is refused by the service, and so here."""
    settings = Settings.load(environ=variables_of(where))
    assert settings.open_probes
    assert not settings.test_hooks


def test_containers_are_locked_down_and_on_loopback_addresses_only() -> None:
    found = compose()
    for name, service in found["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert not service.get("privileged")
        if name not in ("db", "setup"):
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
            assert service["security_opt"] == ["no-new-privileges:true"]
        for secret in service.get("secrets", ()):
            assert secret in found["secrets"]
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).is_dir() if source.startswith("./") else source in found["volumes"], volume


def test_no_password_is_in_compose_and_git_leaves_secrets_out() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert not re.findall(r"(?i)password: (?!/run/secrets/|$)\S+", text)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert "/secrets/" in ignored
    for secret in compose()["secrets"].values():
        assert secret["file"].startswith("secrets/")


def test_the_unit_is_a_sandbox(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    for line in (
        "DynamicUser=yes", "StateDirectory=nearveil", "StateDirectoryMode=0700", "UMask=0077", "NoNewPrivileges=yes",
        "CapabilityBoundingSet=", "ProtectSystem=strict", "PrivateUsers=yes", "IPAddressDeny=any", "LimitCORE=0",
        "SystemCallFilter=@system-service", "EnvironmentFile=/etc/nearveil/nearveil.env",
    ):  # fmt: skip
        assert f"\n{line}\n" in text, line
    given = variables_of("systemd")
    assert given["NEARVEIL_STORE"].startswith("/var/lib/nearveil/")
    assert "LoadCredential=keys.json:" in text
    assert given["NEARVEIL_KEYS_FILE"] == f"/run/credentials/{UNIT.name}/keys.json"
    program = shutil.which("systemd-analyze")
    if program is not None:
        # The program that the unit starts is not here.
        copy = tmp_path / UNIT.name
        copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
        for check in (["verify"], ["security", "--offline=true", "--threshold=15", "--no-pager"]):
            done = subprocess.run([program, *check, copy], check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            # A line that systemd does not know, it only warns of.
            assert UNIT.name not in done.stderr, done.stderr


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_has_only_the_rights_that_it_names(path: Path) -> None:
    workflow = _yaml(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert "permissions" in job, name
        for step in job["steps"]:
            # A version, not a branch.
            assert re.fullmatch(r"[\w./-]+@v\d+(\.\d+)*", step.get("uses", "a/b@v1")), step
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
            # What others can choose, such as the name of a branch, is not put into a shell.
            assert "${{" not in step.get("run", "")
            for target in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.MULTILINE):
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)

"""Which machine it was, and what was installed: a ratio says little without."""

import os
import platform
import shutil
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

PACKAGES = (
    "nearveil", "numpy", "numba", "llvmlite", "scipy", "scikit-learn", "pyarrow", "polars", "cryptography",
    "psycopg",
)  # fmt: skip
PROGRAMS = {"gcc": "--version", "redis-server": "--version", "postgres": "--version"}


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, load and versions."""
    return {
        "processor": _cpu_field("model name") or platform.processor() or platform.machine(),
        "cores": usable_cores(),
        "aes_instructions": "aes" in (_cpu_field("flags") or _cpu_field("Features") or "").split(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        # More than about 0 at the start: something else was running.
        "load_at_start": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "programs": {
            **{name: _program(name, flag) for name, flag in PROGRAMS.items()},
            "sqlite": sqlite3.sqlite_version,
        },
    }


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_line(machine: dict[str, Any]) -> str:
    """Say in a line which machine it is."""
    aes = "with" if machine["aes_instructions"] else "without"
    return (
        f"{machine['processor']}, {machine['cores']} cores, {aes} AES instructions, {machine['memory_gb']:g} GB; "
        f"Python {machine['python']}, load {machine['load_at_start']} at the start"
    )


def _cpu_field(name: str) -> str | None:
    source = Path("/proc/cpuinfo")
    if not source.exists():
        return None
    lines = (line.split(":", 1) for line in source.read_text(encoding="utf-8").splitlines() if ":" in line)
    return next((value.strip() for key, value in lines if key.strip() == name), None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _program(name: str, flag: str) -> str | None:
    found = shutil.which(name)
    if found is None:
        return None
    told = subprocess.run([found, flag], capture_output=True, text=True, check=False).stdout
    return told.splitlines()[0] if told else None

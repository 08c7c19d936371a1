"""A command in a process of its own: seconds and memory."""

import json
import subprocess
import sys

NEARVEIL = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]
# A small process starts the command: what the benchmark itself takes would count as the command's memory.
_WATCH = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([seconds, peak if sys.platform == "darwin" else 1024 * peak]))
"""


class Process:
    """A command that is run again and again, and the most memory that it took."""

    def __init__(self, *command: str) -> None:
        self.command = command
        self.peak_bytes = 0.0

    def __call__(self) -> float:
        """Run it to its end; return how long it took."""
        run = [sys.executable, "-c", _WATCH, *self.command]
        seconds, peak = json.loads(subprocess.run(run, stdout=subprocess.PIPE, check=True).stdout)
        self.peak_bytes = max(self.peak_bytes, peak)
        return float(seconds)

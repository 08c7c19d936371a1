"""wrk with a question of its own for every request."""

import json
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving.people import places_to_ask_from

QUESTIONS = 10_000
K = 10
MARK = "nearveil:"

SCRIPT = """
local bodies = {{ {bodies} }}
local requests = {{}}
init = function()
  local headers = {{ ["Content-Type"] = "application/json", ["Authorization"] = "Bearer {key}" }}
  for i = 1, #bodies do requests[i] = wrk.format("POST", "/v1/nearby", headers, bodies[i]) end
end
request = function() return requests[math.random(#requests)] end
"""

# A few questions in one write, again and again: wrk takes as little of the machine as it can.
FEW_QUESTIONS = """
local requests
init = function()
  local headers = {{ ["Content-Type"] = "application/json", ["Authorization"] = "Bearer {key}" }}
  local bodies = {{ {bodies} }}
  for i = 1, #bodies do bodies[i] = wrk.format("POST", "/v1/nearby", headers, bodies[i]) end
  requests = table.concat(bodies)
end
request = function() return requests end
"""

DONE = """
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{mark}{{"requests":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f,"p999_ms":%.3f,"max_ms":%.3f,"errors":%d}}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency:percentile(99.9) / 1e3, latency.max / 1e3, e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True)
class Asked:
    """What wrk saw."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    errors: int
    cpu_s: float = 0.0

    @property
    def per_s(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def write_script(
    path: Path,
    key: str,
    questions: int = QUESTIONS,
    *,
    is_pipelined: bool = False,
    filters: Mapping[str, object] | None = None,
) -> None:
    """Write questions from where people are, for a script that sends a random one of them or all at once."""
    bodies = ",\n".join(
        f"'{json.dumps({'latitude': latitude, 'longitude': longitude, 'k': K, **(filters or {})})}'"
        for latitude, longitude in places_to_ask_from(questions).round(6).tolist()
    )
    script = FEW_QUESTIONS if is_pipelined else SCRIPT
    path.write_text(script.format(bodies=bodies, key=key) + DONE.format(mark=MARK), encoding="utf-8")
    path.chmod(0o600)


def ask(port: int, script: Path, seconds: int, connections: int = 64) -> Asked:
    """Ask for so long over so many connections, from one thread."""
    before_s = _children_cpu_s()
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(script)]
    finished = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/v1/nearby"], capture_output=True, text=True, check=True
    )
    line = next(line for line in finished.stdout.splitlines() if line.startswith(MARK))
    return Asked(**json.loads(line.removeprefix(MARK)), cpu_s=round(_children_cpu_s() - before_s, 3))


def _children_cpu_s() -> float:
    """Return the time that finished child processes have computed for: servers run on, and do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

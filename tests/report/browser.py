"""A real browser, driven through its DevTools protocol over a pair of pipes: nothing to install but Chromium."""

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)

# The browser listens on descriptor 3 and speaks on 4.
_START = """
import fcntl, os, sys
ears, mouth = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(ears, 3)
os.dup2(mouth, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE_S = 60


class Browser:
    """One page in a browser of its own; remembers what the page complained of and asked for."""

    def __init__(self, profile: Path) -> None:
        ears, self._mouth = os.pipe()
        self._ears, mouth = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        command = [
            sys.executable,
            "-c",
            _START,
            str(ears),
            str(mouth),
            str(CHROMIUM),
            *options,
            f"--user-data-dir={profile}",
        ]
        self._process = subprocess.Popen(
            command, pass_fds=(ears, mouth), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(ears)
        os.close(mouth)
        self._unread = b""
        self._last = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._mouth, json.dumps(message).encode() + b"\0")
        while (answer := self._hear()).get("id") != self._last:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, page: Path, *, width: int, dark: bool = False) -> None:
        """Open a file and wait until everything is there."""
        self.complaints.clear()
        self.requests.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        self.set_media("screen", dark=dark)
        self.ask("Page.navigate", url=page.as_uri())
        while self._hear().get("method") != "Page.loadEventFired":
            pass

    def set_media(self, media: str, *, dark: bool) -> None:
        """Choose screen or print, light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def run(self, script: str) -> Any:
        """Return the value of an expression, or of what it promises."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def close(self) -> None:
        """End the browser."""
        self._session = None
        self.ask("Browser.close")
        self._process.wait(_PATIENCE_S)
        os.close(self._mouth)
        os.close(self._ears)

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._ears], [], [], _PATIENCE_S)
            heard = os.read(self._ears, 1 << 20) if ready else b""
            assert heard, "the browser does not answer"
            self._unread += heard
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.complaints.append(json.dumps(message["params"]))
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])

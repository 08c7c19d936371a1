"""A real HTTP server with one file, which can be told to misbehave."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """What the server has and does; ``asked`` are the headers of the requests it got.

    ``cut_after`` has one entry for each coming request: so many bytes, and the connection is closed.
    """

    content: bytes
    etag: str | None = '"one"'
    modified: str | None = None
    ranges: bool = True
    status: int = 200
    shift: int = 0
    repeats_version: bool = True
    cut_after: list[int] = field(default_factory=list)
    asked: list[Message] = field(default_factory=list)
    url: str = ""

    def version_headers(self) -> dict[str, str]:
        headers = {"ETag": self.etag, "Last-Modified": self.modified}
        return {name: value for name, value in headers.items() if value is not None}

    def is_current(self, if_range: str | None) -> bool:
        return if_range is None or if_range in self.version_headers().values()


@contextmanager
def serving(server: FileServer) -> Iterator[FileServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.headers)
            if server.status != 200:
                self.send_error(server.status)
                return
            total = len(server.content)
            asked = self.headers.get("Range")
            if not (asked and server.ranges and server.is_current(self.headers.get("If-Range"))):
                self.answer(200, 0, server.version_headers())
                return
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= total:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            start += server.shift
            headers = server.version_headers() if server.repeats_version else {}
            self.answer(206, start, {**headers, "Content-Range": f"bytes {start}-{total - 1}/{total}"})

        def answer(self, status: int, start: int, headers: dict[str, str]) -> None:
            body = server.content[start:]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: server.cut_after.pop(0)] if server.cut_after else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}/data/"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def snap_file(rows: int = 100) -> bytes:
    """Return a small file in SNAP's format: every row a place of its own in San Francisco."""
    lines = [
        f"{row}\t2010-10-17T01:48:53Z\t{37.6 + row / 1e4:.6f}\t{-122.4 + row / 1e4:.6f}\tplace{row}\n"
        for row in range(rows)
    ]
    return gzip.compress("".join(lines).encode(), mtime=0)

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
    """What the server gives, at most so many bytes of it, and the headers of the requests it got."""

    content: bytes
    status: int = 200
    cut_after: int | None = None
    asked: list[Message] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(server: FileServer) -> Iterator[FileServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.headers)
            if server.status != 200:
                self.send_error(server.status)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(server.content)))
            self.end_headers()
            self.wfile.write(server.content[: server.cut_after])

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

"""The files of the page: ours from this package, the drawing library from its own."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata, resources
from urllib.parse import urlsplit

from nearveil.server.problems import not_found

_HERE = resources.files("nearveil.server.console").joinpath("static")
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_OURS = "no-cache"
_FOR_EVER = "public, max-age=31536000, immutable"
_PLOTLY_MARK = "@@PLOTLY@@"


@dataclass(frozen=True, slots=True, eq=False)
class PageFile:
    """A file as it is sent.

    Attributes
    ----------
    plain, packed : bytes
        As it is, and compressed with gzip.
    kind, caching, tag : str
        Values of its headers; the tag changes with the content.
    """

    plain: bytes
    packed: bytes
    kind: str
    caching: str
    tag: str


def plotly_name() -> str:
    """Return under which name Plotly's script is served: with its version, so that it can be kept for ever."""
    return f"plotly-{metadata.version('plotly')}.min.js"


@lru_cache(maxsize=32)
def page_file(name: str) -> PageFile:
    """Return a file by its name; raises the problem ``not-found``."""
    if name == plotly_name():
        plain = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
        return _sent(plain, ".js", _FOR_EVER)
    if name not in _names():
        raise not_found()
    text = _HERE.joinpath(name).read_text(encoding="utf-8").replace(_PLOTLY_MARK, plotly_name())
    return _sent(text.encode(), "." + name.rpartition(".")[2], _OURS)


def content_policy(tile_address: str | None) -> str:
    """Return what the page may load: its own files, and images of the tile server if there is one."""
    tiles = tile_origin(tile_address)
    images = " ".join(["'self'", "data:", "blob:", *([tiles] if tiles else [])])
    rules = (
        "default-src 'none'",
        "script-src 'self'",
        # Plotly writes its few rules into the page.
        "style-src 'self' 'unsafe-inline'",
        f"img-src {images}",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)


def tile_origin(tile_address: str | None) -> str | None:
    """Return scheme and host of a tile server's address; None if there is none, or it is no address.

    Examples
    --------
    >>> tile_origin("https://tiles.example.org/{z}/{x}/{y}.png")
    'https://tiles.example.org'
    """
    if not tile_address:
        return None
    try:
        parts = urlsplit(tile_address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    plain = host is not None and all(letter.isalnum() or letter in ".-" for letter in host) and host.isascii()
    if parts.scheme not in ("http", "https") or not plain:
        return None
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(
        entry.name for entry in _HERE.iterdir() if entry.is_file() and "." + entry.name.rpartition(".")[2] in _KINDS
    )


def _sent(plain: bytes, suffix: str, caching: str) -> PageFile:
    tag = f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
    return PageFile(plain, gzip.compress(plain, 6, mtime=0), _KINDS[suffix], caching, tag)

"""Pictures inside the page, for light and for dark."""

from __future__ import annotations

import base64
import io
import re
import struct
from html import escape

from nearveil.evaluation.outcome import Picture
from nearveil.report.outcome_files import draw_picture
from nearveil.report.panels import Format

# A drawing is sharp at any size; beyond this, an image is the smaller evil.
_LARGEST_SVG_BYTES = 400_000
_KINDS = {"svg": "image/svg+xml", "png": "image/png"}
# Images have 150 dots per inch; a page has 96.
_PAGE_SCALE = 96 / 150
# A picture wider than this is scrolled on a phone rather than shrunk to its width.
_PHONE_PX = 700


def picture_figure(picture: Picture) -> str:
    """Return a picture in both variants, of which the page shows one, with its caption."""
    format: Format = "svg"
    light = _drawn(picture, dark=False, format=format)
    if len(light) > _LARGEST_SVG_BYTES:
        format = "png"
        light = _drawn(picture, dark=False, format=format)
    dark = _drawn(picture, dark=True, format=format)
    images = "\n".join(_image(picture, data, format, theme) for data, theme in ((light, "light"), (dark, "dark")))
    return (
        f'<figure class="picture">\n<div class="scroll">\n{images}\n</div>\n'
        f"<figcaption>{escape(picture.title)}</figcaption>\n</figure>"
    )


def _image(picture: Picture, data: bytes, format: Format, theme: str) -> str:
    width, height = _svg_size(data) if format == "svg" else _png_size(data)
    natural = f' style="--natural: {width}px"' if width > _PHONE_PX else ""
    source = f"data:{_KINDS[format]};base64,{base64.b64encode(data).decode()}"
    return (
        f'<img class="{theme}" alt="{escape(picture.words)}" width="{width}" height="{height}"{natural} '
        f'decoding="async" src="{source}">'
    )


def _drawn(picture: Picture, *, dark: bool, format: Format) -> bytes:
    stream = io.BytesIO()
    draw_picture(picture, stream, dark=dark, format=format, titled=False)
    return stream.getvalue()


def _svg_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of the page, from points."""
    width, height = (re.search(rb' %s="([\d.]+)pt"' % side, data) for side in (b"width", b"height"))
    if width is None or height is None:
        raise ValueError("a drawing without a size")
    return round(float(width[1]) * 4 / 3), round(float(height[1]) * 4 / 3)


def _png_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", data[16:24])
    return round(width * _PAGE_SCALE), round(height * _PAGE_SCALE)

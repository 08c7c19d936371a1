"""Cursors: where the list of a question goes on, for its caller alone and within its epoch."""

from __future__ import annotations

import binascii
import hmac
import json
import struct
from base64 import b64decode, urlsafe_b64encode

from nearveil.nearby.publishing.keys import keyed_bytes
from nearveil.server.auth import Caller
from nearveil.server.models import Question
from nearveil.server.problems import cursor_expired, invalid

_EPOCH_BYTES = 8
_MAC_BYTES = 16


class Cursors:
    """Writes cursors, and reads those that it wrote.

    Parameters
    ----------
    key : bytes
        Makes cursors that nobody else can make.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, last: str, question: Question, caller: Caller, asker: str | None, epoch: int) -> str:
        """Return what lets this question, of this caller and in this epoch, go on after somebody."""
        mac = self._mac(last, question, caller, asker, epoch)
        return urlsafe_b64encode(struct.pack(">q", epoch) + mac + last.encode()).rstrip(b"=").decode()

    def read(self, text: str, question: Question, caller: Caller, asker: str | None, epoch: int) -> str:
        """Return after whom a question goes on."""
        try:
            content = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            [made_in] = struct.unpack(">q", content[:_EPOCH_BYTES])
            mac, last = content[_EPOCH_BYTES:][:_MAC_BYTES], content[_EPOCH_BYTES + _MAC_BYTES :].decode()
        except (binascii.Error, struct.error, UnicodeDecodeError):
            raise _not_a_cursor() from None
        if not hmac.compare_digest(mac, self._mac(last, question, caller, asker, made_in)):
            raise _not_a_cursor()
        if made_in != epoch:
            raise cursor_expired()
        return last

    def _mac(self, last: str, question: Question, caller: Caller, asker: str | None, epoch: int) -> bytes:
        # All but k, so that pages may differ in length: nobody begins in the middle of a list of their choice.
        asked = (question.within_m, question.only, sorted(set(question.exclude)))
        return keyed_bytes(
            self._key,
            "nearveil cursor",
            struct.pack(">qdd", epoch, question.latitude, question.longitude),
            *(part.encode() for part in (last, caller.kind, caller.name, asker or "", json.dumps(asked))),
            size=_MAC_BYTES,
        )


def _not_a_cursor() -> Exception:
    return invalid("after: This is no cursor of this question; send the question of the page before, with its 'next'.")

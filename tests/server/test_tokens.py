"""A token says who, which of those of that name, and until when; whoever changes anything about it has none."""

import hashlib
import hmac
import struct
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.nearby.stores.base import PERSON_PATTERN
from nearveil.server.auth import LONGEST_TOKEN_S, TokenClaims, read_token, write_token

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
NOW = 1_800_000_000.25
MARK = 77

people = st.from_regex(PERSON_PATTERN, fullmatch=True)


def token_of(person: str = "ann", expires_in_s: float = 3600) -> str:
    return write_token(KEY, person, MARK, now=NOW, expires_in_s=expires_in_s)[0]


def forged(payload: bytes) -> str:
    """A token that is signed rightly, whatever it says."""
    signature = hmac.digest(KEY, b"nearveil person token\0" + payload, hashlib.sha256)
    return "nvt_" + ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in (payload, signature))


@given(people, st.integers(0, 2**63 - 1), st.floats(0.001, LONGEST_TOKEN_S))
def test_what_is_written_is_read_until_it_expires(person: str, mark: int, expires_in_s: float) -> None:
    text, token = write_token(KEY, person, mark, now=NOW, expires_in_s=expires_in_s)
    assert (token.person, token.mark) == (person, mark)
    assert NOW + expires_in_s - 0.002 < token.expires_at <= NOW + expires_in_s + 1e-6
    assert read_token(KEY, text, now=token.expires_at - 0.0005) == token
    assert read_token(KEY, text, now=token.expires_at) is None
    assert read_token(OTHER_KEY, text, now=NOW) is None


@given(people, st.data())
def test_no_changed_character_is_accepted(person: str, data: st.DataObject) -> None:
    text = token_of(person)
    position = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters().filter(lambda drawn: drawn != text[position]))
    assert read_token(KEY, text[:position] + character + text[position + 1 :], now=NOW) is None


@given(st.data())
def test_no_part_of_a_token_and_nothing_more_is_accepted(data: st.DataObject) -> None:
    text = token_of()
    assert read_token(KEY, text[: data.draw(st.integers(0, len(text) - 1))], now=NOW) is None
    assert read_token(KEY, text + data.draw(st.text(min_size=1)), now=NOW) is None


@given(st.text(max_size=400))
def test_any_text_is_no_token(text: str) -> None:
    assert read_token(KEY, text, now=NOW) is None
    assert read_token(KEY, f"nvt_{text}", now=NOW) is None


def test_the_two_parts_belong_together() -> None:
    ann, bob = token_of("ann").split("."), token_of("bob").split(".")
    assert read_token(KEY, f"{ann[0]}.{bob[1]}", now=NOW) is None
    assert read_token(KEY, f"{ann[0]}.{ann[1]}", now=NOW) is not None


def test_a_payload_has_one_spelling() -> None:
    head, tail = token_of("ann12").split(".")
    # The last of the 30 characters of 22 bytes has 4 bits that nobody reads.
    assert len(head) == len("nvt_") + 30
    respelled = head[:-1] + chr(ord(head[-1]) + 1)
    assert read_token(KEY, f"{respelled}.{tail}", now=NOW) is None


@pytest.mark.parametrize(
    ("version", "ends_in_s"), [(0, 60), (1, 60), (255, 60), (2, -1), (2, 0), (2, LONGEST_TOKEN_S + 60), (2, 1e9)]
)
def test_signed_tokens_of_another_version_or_an_absurd_end(version: int, ends_in_s: float) -> None:
    payload = struct.pack(">BQQ", version, int((NOW + ends_in_s) * 1000), MARK) + b"ann"
    assert read_token(KEY, forged(payload), now=NOW) is None


def test_the_forger_of_these_tests_signs_as_the_service_does() -> None:
    payload = struct.pack(">BQQ", 2, int((NOW + 60) * 1000), MARK) + b"ann"
    assert read_token(KEY, forged(payload), now=NOW) == TokenClaims("ann", NOW + 60, MARK)


@pytest.mark.parametrize("length", [0, 1, 8, 9, 16, 17, 146, 10_000])
def test_signed_payloads_of_absurd_lengths(length: int) -> None:
    payload = struct.pack(">BQQ", 2, int((NOW + 60) * 1000), MARK).ljust(length, b"a")[:length]
    assert read_token(KEY, forged(payload), now=NOW) is None


@pytest.mark.parametrize("expires_in_s", [0, -1, LONGEST_TOKEN_S + 1, float("nan"), float("inf")])
def test_no_token_without_a_sensible_end(expires_in_s: float) -> None:
    with pytest.raises(UsageError, match="30 days"):
        token_of(expires_in_s=expires_in_s)


@pytest.mark.parametrize("person", ["", "a" * 129, "a b", "a/b", "ä", "a\n", ".", ".."])
def test_no_token_for_what_is_no_id(person: str) -> None:
    with pytest.raises(UsageError, match="id"):
        token_of(person)

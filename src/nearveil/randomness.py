"""Randomness: a cryptographically secure generator by default, a seeded one only on request."""

from __future__ import annotations

import hashlib
import math
import platform
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from llvmlite.binding import get_host_cpu_features
from numba import config
from randomgen import AESCounter

from nearveil.errors import UsageError
from nearveil.types import FloatArray, IntArray, WordArray


@dataclass(frozen=True, slots=True)
class Randomness:
    """A generator, and whether someone who knows a seed could repeat what it drew.

    Use `secure_randomness`, `seeded_randomness` or `as_randomness` to make one.
    """

    generator: np.random.Generator
    seeded: bool

    def spawn(self, count: int) -> list[np.random.Generator]:
        """Return independent generators of the same kind, for work in parallel."""
        if not self.seeded:
            return [secure_generator() for _ in range(count)]
        seeds = self.generator.integers(2**63, size=(count, 4))
        return [np.random.default_rng(seed) for seed in seeds]


def secure_generator() -> np.random.Generator:
    """Return a NumPy generator that draws from AES-128 in counter mode under a fresh random key."""
    return np.random.Generator(AESCounter(key=secrets.randbits(128), counter=0))


def secure_randomness() -> Randomness:
    """Return secure randomness, the default everywhere.

    Examples
    --------
    >>> secure_randomness().seeded
    False
    """
    return Randomness(secure_generator(), seeded=False)


RELEASE_STREAM = 1
FIT_STREAM = 2
ORDER_STREAM = 3


def seeded_randomness(seed: int, stream: int = RELEASE_STREAM) -> Randomness:
    """Return randomness that the same seed repeats: for experiments and tests, never for real people.

    Different streams of one seed are independent of each other.
    """
    # A spawn key keeps the stream apart from a plain generator of the same seed, which the caller may use as well.
    sequence = np.random.SeedSequence(_checked_seed(seed), spawn_key=(stream,))
    return Randomness(np.random.default_rng(sequence), seeded=True)


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError("a seed is a whole number, 0 or more")
    return int(seed)


def as_randomness(source: Randomness | np.random.Generator | int | None) -> Randomness:
    """Turn what a caller passed as ``rng`` into Randomness.

    Nothing gives secure randomness. A seed or a generator of the caller's gives repeatable randomness, and
    what is made with it says so.
    """
    if source is None:
        return secure_randomness()
    if isinstance(source, Randomness):
        return source
    if isinstance(source, np.random.Generator):
        return Randomness(source, seeded=True)
    return seeded_randomness(source)


# Secure randomness that belongs to rows: the same row draws the same, in whatever order, batch or process.
#
# A row has a stream of blocks of two 64-bit words each. Block ``number`` of a row is AES-128 of the row's nonce and
# the number, under a secret key: counter mode, with random access to the counter. So work can
# be cut and repeated at will, and a task that Spark runs twice draws nothing twice.


KEY_BYTES = 16
BLOCK_BYTES = 16
_WORDS_PER_BLOCK = 2
_UNIT = 2.0**-53


def new_stream_key() -> bytes:
    """Return a fresh key from the operating system's randomness."""
    return secrets.token_bytes(KEY_BYTES)


def stream_key(source: Randomness | np.random.Generator | int | None = None, stream: int = RELEASE_STREAM) -> bytes:
    """Return the key of a stream of rows: a fresh secret one, that of a seed, or the next of a caller's generator.

    Different streams of one seed are independent of each other. Anyone who knows the seed has the key: it is for
    experiments and tests, never for real people.
    """
    if source is None or (isinstance(source, Randomness) and not source.seeded):
        return new_stream_key()
    if isinstance(source, Randomness):
        return source.generator.bytes(KEY_BYTES)
    if isinstance(source, np.random.Generator):
        return source.bytes(KEY_BYTES)
    text = f"{_checked_seed(source)} {stream}".encode()
    return hashlib.blake2b(text, person=b"nearveil seed", digest_size=KEY_BYTES).digest()


class RowKeystream(ABC):
    """The streams of the rows of one batch."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all, shape (rows, 2)."""

    def uniforms(self, columns: int, *, first_block: int = 0, rows: IntArray | None = None) -> FloatArray:
        """Return numbers of 53 bits in [0, 1), shape (n, columns), which are always the same for the same row.

        Parameters
        ----------
        columns : int
            How many for each row. Two of them take a block.
        first_block : int
            The block to begin with; to get numbers that were not used before, continue after the last one.
        rows : array of int, optional
            Which rows, if not all.
        """
        count = -(-columns // _WORDS_PER_BLOCK)
        words = np.hstack([self.blocks(first_block + place, rows) for place in range(count)])[:, :columns]
        numbers: FloatArray = (words >> np.uint64(11)).astype(np.float64) * _UNIT
        return numbers


@dataclass(frozen=True, slots=True)
class NumberedRows(RowKeystream):
    """Rows with consecutive numbers, under a key that is used for one release only.

    Parameters
    ----------
    key : bytes
        `new_stream_key` makes one.
    first, count : int
        The numbers of the rows.
    """

    key: bytes = field(repr=False)
    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def key_words(self) -> WordArray:
        """The key, for compiled code that makes blocks itself."""
        return np.frombuffer(self.key, dtype=np.uint64)

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all."""
        if rows is None:
            # Consecutive rows are consecutive counters: one stream.
            start = number.to_bytes(8, "big") + self.first.to_bytes(8, "big")
            return _encrypted(Cipher(AES128(self.key), CTR(start)), np.zeros((self.count, 2), dtype=np.uint64))
        counters = np.empty((len(rows), 2), dtype=">u8")
        counters[:, 0] = number
        counters[:, 1] = rows
        counters[:, 1] += np.uint64(self.first)
        return _encrypted(Cipher(AES128(self.key), ECB()), counters)  # noqa: S305 - of counters, that is counter mode


def numbered_rows(count: int, rng: Randomness | np.random.Generator | int | None = None) -> NumberedRows:
    """Return ``count`` rows of a stream of their own: a secret one, or a seed's or generator's, as in `stream_key`.

    Examples
    --------
    >>> numbered_rows(3, rng=1).uniforms(2).shape
    (3, 2)
    """
    return NumberedRows(stream_key(rng), 0, count)


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows(RowKeystream):
    """Rows with names of their own, 128 bits each that no other row has, wherever and however often they are drawn for.

    Parameters
    ----------
    key : bytes
        Of one job.
    nonces : array of shape (n, 2)
        The names.
    """

    key: bytes = field(repr=False)
    nonces: WordArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.nonces)

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all."""
        names = self.nonces if rows is None else self.nonces[rows]
        # Encrypted once, names are scattered over all counters, so that adding a number to one meets no other.
        counters = _encrypted(Cipher(AES128(subkey(self.key, "names")), ECB()), names)  # noqa: S305
        counters[:, 0] ^= np.uint64(number)
        return _encrypted(Cipher(AES128(subkey(self.key, "blocks")), ECB()), counters)  # noqa: S305


Purpose = Literal["blocks", "job", "names", "noise", "order", "places", "rows"]


def subkey(key: bytes, purpose: Purpose, *parts: bytes) -> bytes:
    """Return a key for one purpose only, bound to whatever else is given."""
    state = hashlib.blake2b(key=key, person=purpose.encode(), digest_size=KEY_BYTES)
    for part in parts:
        state.update(len(part).to_bytes(8, "big") + part)
    return state.digest()


def _encrypted(cipher: Cipher[CTR] | Cipher[ECB], counters: WordArray) -> WordArray:
    out = np.empty(counters.nbytes + BLOCK_BYTES - 1, dtype=np.uint8)
    cipher.encryptor().update_into(np.ascontiguousarray(counters).view(np.uint8).reshape(-1).data, out.data)
    words: WordArray = out[: counters.nbytes].view("<u8").reshape(-1, 2)
    return words


# Exponential noise with a long reach and a known end.


_TAIL = 2.0**-32

EXPONENTIAL_REACH = 85 * math.log(2)
"""The longest draw of exponential noise, in mean lengths; a share of 2⁻⁸⁵ of the law lies beyond."""


def standard_exponential(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Draw exponential noise of mean 1, row by row."""
    return exponential_from_uniforms(rng.random((rows, columns, 2)))


def exponential_from_uniforms(u: FloatArray) -> FloatArray:
    """Turn pairs of uniform numbers of [0, 1), the last axis, into exponential noise of mean 1 by inverse CDF.

    One 53-bit uniform would end at 37 mean lengths and be coarse before that. So the last 2⁻³² of it are spread
    out by a second uniform: the tail of an exponential is that exponential again.
    """
    near = 1.0 - u[..., 0]
    tail: FloatArray = np.where(near < _TAIL, math.log(_TAIL) + np.log1p(-u[..., 1]), np.log(near))
    return -tail


# Blocks of a keystream of rows within compiled code, by the processor's own AES instructions.
#
# The blocks are those of `NumberedRows`, made where they are used: nothing is written to memory, and no
# call leaves the compiled code. Only for processors that have the instructions (x86-64 with AES); `HAS_AES` says so.


AT_ONCE = 8
"""Blocks that are made side by side: one alone would wait for each of its rounds."""
ROUND_KEY_WORDS = 22

_ROUND_CONSTANTS = (1, 2, 4, 8, 16, 32, 64, 128, 27, 54)


def _has_aes() -> bool:
    # With compilation switched off there is nothing that could use the instructions.
    if config.DISABLE_JIT or platform.machine() not in {"x86_64", "AMD64"}:  # type: ignore[attr-defined]
        return False
    return bool(get_host_cpu_features().get("aes"))


HAS_AES = _has_aes()

if HAS_AES:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    _WORD = ir.IntType(64)
    _BLOCK = ir.VectorType(_WORD, 2)
    _QUARTERS = ir.VectorType(ir.IntType(32), 4)

    def _number(value: int, bits: int = 32) -> Any:
        return ir.Constant(ir.IntType(bits), value)

    def _blocks(context: Any, builder: Any, kind: Any, array: Any) -> Any:
        """Return a pointer to an array's words as blocks."""
        return builder.bitcast(context.make_array(kind)(context, builder, array).data, _BLOCK.as_pointer())

    def _instruction(builder: Any, name: str, *arguments: Any) -> Any:
        kind = ir.FunctionType(_BLOCK, [argument.type for argument in arguments])
        declare: Any = cgutils.get_or_insert_function
        return builder.call(declare(builder.module, kind, f"llvm.x86.aesni.{name}"), list(arguments))

    def _expand_key(_: Any, key: Any, round_keys: Any) -> Any:
        """Write the round keys of a key of two words, `ROUND_KEY_WORDS` words."""

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, target = (_blocks(context, builder, *pair) for pair in zip(signature.args, arguments, strict=True))
            now = builder.load(source, align=8)
            builder.store(now, target, align=8)
            for place, constant in enumerate(_ROUND_CONSTANTS, 1):
                helped = _instruction(builder, "aeskeygenassist", now, _number(constant, 8))
                word = builder.extract_element(builder.bitcast(helped, _QUARTERS), _number(3))
                quarters, following = builder.bitcast(now, _QUARTERS), ir.Constant(_QUARTERS, ir.Undefined)
                for lane in range(4):
                    word = builder.xor(word, builder.extract_element(quarters, _number(lane)))
                    following = builder.insert_element(following, word, _number(lane))
                now = builder.bitcast(following, _BLOCK)
                builder.store(now, builder.gep(target, [_number(place)]), align=8)
            return context.get_dummy_value()

        return types.void(key, round_keys), code

    def _blocks_of_rows(_: Any, round_keys: Any, number: Any, rows: Any, start: Any, first: Any, out: Any) -> Any:
        """Write block ``number`` of `AT_ONCE` rows, from ``rows[start]`` on; the numbers of rows begin at ``first``."""

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            keys, number, rows, start, first, out = arguments
            source = _blocks(context, builder, signature.args[0], keys)
            target = _blocks(context, builder, signature.args[5], out)
            row = builder.gep(context.make_array(signature.args[2])(context, builder, rows).data, [start])
            keys = [builder.load(builder.gep(source, [_number(place)]), align=8) for place in range(11)]
            blocks = []
            for lane in range(AT_ONCE):
                named = builder.add(builder.load(builder.gep(row, [_number(lane)])), first)
                block = builder.insert_element(ir.Constant(_BLOCK, ir.Undefined), builder.bswap(number), _number(0))
                block = builder.insert_element(block, builder.bswap(named), _number(1))
                blocks.append(builder.xor(block, keys[0]))
            # All of one round before any of the next: the processor works on them side by side.
            for key in keys[1:10]:
                blocks = [_instruction(builder, "aesenc", block, key) for block in blocks]
            for lane, block in enumerate(blocks):
                last = _instruction(builder, "aesenclast", block, keys[10])
                builder.store(last, builder.gep(target, [_number(lane)]), align=8)
            return context.get_dummy_value()

        return types.void(round_keys, types.uint64, rows, types.intp, types.uint64, out), code

    # Numba adds the first argument.
    expand_key: Any = intrinsic(_expand_key)
    blocks_of_rows: Any = intrinsic(_blocks_of_rows)

"""Blocks of a keystream of rows within compiled code, by the processor's own AES instructions.

The blocks are those of `row_keystream.NumberedRows`, made where they are used: nothing is written to memory, and no
call leaves the compiled code. Only for processors that have the instructions (x86-64 with AES); `HAS_AES` says so.
"""

from __future__ import annotations

import platform
from typing import Any

from nearveil.kernels import COMPILED

AT_ONCE = 8
"""Blocks that are made side by side: one alone would wait for each of its rounds."""
ROUND_KEY_WORDS = 22

_ROUND_CONSTANTS = (1, 2, 4, 8, 16, 32, 64, 128, 27, 54)


def _has_aes() -> bool:
    if not COMPILED or platform.machine() not in {"x86_64", "AMD64"}:
        return False
    from llvmlite.binding import get_host_cpu_features  # noqa: PLC0415

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

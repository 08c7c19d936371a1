"""The search for leaks finds what is there; else it would prove nothing."""

import struct

import numpy as np
import pytest
from tests.services.leaks import leaks

from nearveil.region import named_region

REGION = named_region("san-francisco")
PLACE = (37.761234567, -122.412345678)
X_M, Y_M = REGION.to_metres(np.array([PLACE]))[0]


@pytest.mark.parametrize(
    "content",
    [
        b'{"latitude": 37.761234567, "longitude": 0}',
        b"POST /v1/nearby?longitude=-122.412345678",
        b"at 37.761234 north",
        b"\x00" + struct.pack("<d", PLACE[0]) + b"\x00",
        b"\x00" + struct.pack(">d", PLACE[1]) + b"\x00",
        b"x" + struct.pack("<d", X_M),
        f"y={Y_M:.3f}".encode(),
        b"micro 122412346",
    ],
)
def test_every_form_of_a_place_is_found(content: bytes) -> None:
    assert leaks([("clean", b"37.8 and -122.4"), ("dirty", content)], [(37.6, -122.3), PLACE], REGION) == ["dirty"]

"""Users to draw."""

from nearveil.io.synthetic import synthetic_city
from nearveil.region import named_region

REGION = named_region("san-francisco")
CITY = synthetic_city(1500, REGION, rng=1)

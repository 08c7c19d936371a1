"""A release on a Spark cluster: from one path to another."""

from __future__ import annotations

import sys

from nearveil.cli._options import Charge, SparkWish
from nearveil.cli.release_order import Released, ReleaseOrder
from nearveil.mechanisms.base import Mechanism
from nearveil.release.spark.api import protect_path
from nearveil.release.spark.session import session


def release_with_spark(order: ReleaseOrder, mechanism: Mechanism, charge: Charge, wish: SparkWish) -> Released:
    """Run the release in the session that is there, or in one that Spark's settings describe."""
    # Spark has a bar of its own, for what only it knows.
    with session(wish.settings, show_progress=sys.stderr.isatty()) as spark:
        done = protect_path(
            spark,
            order.source,
            order.output,
            mechanism=mechanism,
            key=str(wish.key),
            input_format=wish.input_format,
            output_format=wish.output_format,
            partition_by=tuple(wish.partition_by or ()),
            force=order.force,
            latitude=order.latitude,
            longitude=order.longitude,
            drop=order.drop,
            person=order.person,
            per_row=order.per_row,
            clip=order.clip,
            ledger=charge.ledger,
        )
    return Released(
        mechanism=done.mechanism,
        rows=done.count,
        clipped=done.clipped,
        several_rows=done.several_rows,
        fitted_here=done.fitted_here,
        clip=order.clip,
        keeps_order=False,
        warnings=done.warnings,
    )

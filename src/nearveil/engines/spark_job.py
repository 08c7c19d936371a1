"""One release with Spark, step by step: look at all rows, refuse what cannot be used, fit, charge, plan."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nearveil.engines.batch_places import PlaceColumns
from nearveil.engines.card import card_of
from nearveil.engines.charging import charge_release
from nearveil.engines.protected import Protected
from nearveil.engines.spark_answers import PlacesInSpark
from nearveil.engines.spark_columns import (
    Columns,
    check_key_type,
    check_published,
    find_columns,
    quoted,
    warn_of_predicting,
)
from nearveil.engines.spark_persons import check_persons, refuse_repeated_keys
from nearveil.engines.spark_release import job_key, released_rows
from nearveil.engines.spark_session import check_session, require_spark, session_warnings
from nearveil.engines.spark_tasks import run_on_batches
from nearveil.engines.tally import TALLY_SCHEMA, Tally, TallyRows, tally_from_table
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.privacy.ledger import Ledger
from nearveil.types import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked for; the fields are the parameters of `nearveil.engines.spark.protect`.

    ``repeats`` says that the secret was given, to repeat a release.
    """

    mechanism: Mechanism
    key: str
    latitude: str | None
    longitude: str | None
    drop: tuple[str, ...]
    person: str | None
    per_row: bool
    clip: bool
    ledger: Ledger | None
    secret: bytes = field(repr=False)
    repeats: bool
    progress: Progress | None

    def __post_init__(self) -> None:
        require_spark()
        if not isinstance(self.mechanism, Mechanism):
            raise UsageError("mechanism must be a Mechanism, such as PlanarLaplace() or DPRS()")
        if self.mechanism.seed is not None:
            raise UsageError("a seed protects nobody, and the Spark engine has no use for one; leave it out")
        if self.ledger is not None and self.per_row:
            raise UsageError("a ledger charges people, one row each; leave per_row or the ledger out")
        if not isinstance(self.drop, tuple | list):
            raise UsageError("drop takes a tuple of names, such as drop=('name',)")
        if self.repeats and _is_to_be_fitted(self.mechanism):
            raise UsageError(
                "a secret repeats a release with the same intervals, and these are to be found anew; give intervals"
            )

    def planned(self, df: DataFrame, partition_by: tuple[str, ...] = ()) -> Protected:
        """Check everything and fit; return the release with its rows still a plan."""
        if not hasattr(df, "sparkSession"):
            raise UsageError("df must be a Spark DataFrame; for a file there is nearveil protect, for arrays perturb")
        check_session(df.sparkSession)
        if df.isStreaming:
            raise UsageError("a stream has no end to count its keys by; protect its batches, one by one")
        columns, kept = find_columns(
            df.columns, key=self.key, latitude=self.latitude, longitude=self.longitude, drop=self.drop
        )
        check_key_type(df.schema, self.key)
        _check_folders(partition_by, columns)
        # By position: names may have dots in them.
        numbered = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
        people = numbered.select(*(f"c{place}" for place in kept)).toDF(*(f"c{place}" for place in range(len(kept))))
        warnings = (*session_warnings(df.sparkSession), *check_published(people, columns))
        tally = self._tally(people, columns)
        refuse_repeated_keys(people, columns, tally.rows)
        warnings = (*warnings, *warn_of_predicting(people, columns, tally.rows))
        several_rows, suspicions = check_persons(
            df, columns, tally.rows, person=self._other_person, per_row=self.per_row
        )
        mechanism, fitted_here = self._fitted(people, columns, tally)
        clipped = tally.outside if self.clip else 0
        card = card_of(mechanism, several_rows=several_rows, fitted_here=fitted_here, clip=self.clip)
        if self.ledger is not None:
            if several_rows:
                raise UsageError(
                    "a ledger charges people, but some seem to have several rows; name their column (person)"
                )
            check_key_type(df.schema, self._other_person or self.key)
        rows = released_rows(
            people,
            columns,
            self._places(columns.latitude, columns.longitude, mechanism),
            mechanism,
            job_key(self.secret, mechanism, tally),
            partition_by,
        )
        return Protected(
            rows=rows,
            guarantee=card,
            mechanism=mechanism,
            count=tally.rows,
            clipped=clipped,
            several_rows=several_rows,
            fitted_here=fitted_here,
            warnings=(*warnings, *suspicions),
        )

    @property
    def _other_person(self) -> str | None:
        """The column that tells people apart, if it is named and is not the key, of which every value is there once."""
        return None if self.person == self.key else self.person

    def _places(self, latitude: int, longitude: int, mechanism: Mechanism) -> PlaceColumns:
        return PlaceColumns(latitude, longitude, mechanism.resolved_region, self.clip)

    def _tally(self, people: DataFrame, columns: Columns) -> Tally:
        region = self.mechanism.resolved_region
        wanted = people.select(*(f"c{place}" for place in (columns.key, columns.latitude, columns.longitude)))
        tally = tally_from_table(run_on_batches(wanted, TallyRows(region, self.secret), TALLY_SCHEMA).toArrow())
        tally.refuse_faults(self.key, region, clip=self.clip)
        return tally

    def _fitted(self, people: DataFrame, columns: Columns, tally: Tally) -> tuple[Mechanism, bool]:
        """Return the mechanism with its intervals, and whether these people paid for them."""
        mechanism = self.mechanism
        if not _is_to_be_fitted(mechanism) or not isinstance(mechanism, DPRS):
            return mechanism, False
        places = people.select(f"c{columns.latitude}", f"c{columns.longitude}")
        asked = PlacesInSpark(places, self._places(0, 1, mechanism), tally)
        # The caller's own stays as it is.
        return copy.copy(mechanism).fit(asked, progress=self.progress), True

    def charge(self, df: DataFrame, planned: Protected) -> None:
        """Put everybody's loss on record, or refuse the release."""
        if self.ledger is None:
            return
        ids = df.select(quoted(self._other_person or self.key)).toArrow().column(0)
        charge_release(self.ledger, planned.mechanism, ids.to_pylist(), fitted_here=planned.fitted_here)


def _is_to_be_fitted(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, DPRS) and mechanism.intervals is None and not hasattr(mechanism, "intervals_")


def _check_folders(partition_by: tuple[str, ...], columns: Columns) -> None:
    published = [columns.names[place] for place in columns.published]
    coordinates = (columns.names[columns.latitude], columns.names[columns.longitude])
    if len(set(partition_by)) < len(partition_by):
        raise UsageError("a column to make folders of is named twice; name it once")
    for name in partition_by:
        if name not in published or name in coordinates:
            raise DataError(f"{name!r} is no column to make folders of; name one that is published and no coordinate")

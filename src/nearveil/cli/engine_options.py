"""Options that say which engine does the work, and what only one of them can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from nearveil.errors import UsageError

_PANEL = "Spark engine"


class EngineName(StrEnum):
    """What does the work."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    EngineName,
    typer.Option(help="This machine, or a Spark cluster, which reads and writes any path that Spark knows."),
]
KeyOption = Annotated[
    str | None,
    typer.Option(help="Column with another value in every row; required.", metavar="COLUMN", rich_help_panel=_PANEL),
]
InputFormatOption = Annotated[
    str | None,
    typer.Option(help="Spark's name of the input's format.", show_default="from its extension", rich_help_panel=_PANEL),
]
OutputFormatOption = Annotated[
    str | None,
    typer.Option(
        help="Spark's name of the output's format, such as delta.",
        show_default="from its extension, or parquet",
        rich_help_panel=_PANEL,
    ),
]
PartitionByOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Make folders by the values of this column; may be repeated.", metavar="COLUMN", rich_help_panel=_PANEL
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A setting of Spark, such as spark.master=spark://host:7077; may be repeated.",
        metavar="NAME=VALUE",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWish:
    """What was asked of the Spark engine alone."""

    key: str | None
    input_format: str | None
    output_format: str | None
    partition_by: Sequence[str] | None
    spark_conf: Sequence[str] | None

    def check(self, engine: EngineName, seed: int | None, *, keep_order: bool) -> None:
        """Refuse what this engine does not have, and Spark without a key."""
        if engine is EngineName.SPARK and self.key is None:
            raise UsageError("the Spark engine needs --key: a column with a different value in every row")
        if engine is EngineName.SPARK and seed is not None:
            raise UsageError("--seed protects nobody, and the Spark engine has no use for one; leave it out")
        if engine is EngineName.SPARK and keep_order:
            raise UsageError("the Spark engine always writes rows in random order; leave --keep-order out")
        if engine is EngineName.LOCAL:
            for name in self.__slots__:
                if getattr(self, name):
                    raise UsageError(f"--{name.replace('_', '-')} is for the Spark engine; add --engine spark")

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings by their names."""
        pairs = [text.partition("=") for text in self.spark_conf or ()]
        if not all(name.startswith("spark.") and value for name, _, value in pairs):
            raise UsageError("--spark-conf takes a setting and its value, such as spark.master=spark://host:7077")
        return {name.strip(): value.strip() for name, _, value in pairs}

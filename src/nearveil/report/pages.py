"""Pages from templates, in which every value is escaped unless it says that it is markup."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


def filled(name: str, **values: Any) -> Markup:
    """Return a template of the folder ``templates`` with these values in it."""
    return Markup(_templates().get_template(name).render(values))  # noqa: S704  # it is escaped already


def verbatim(name: str) -> Markup:
    """Return a style or a script of the folder ``templates`` as it stands."""
    folder = resources.files("nearveil.report").joinpath("templates")
    return Markup(folder.joinpath(name).read_text(encoding="utf-8"))  # noqa: S704  # a file of this package


@cache
def _templates() -> Environment:
    # Only needed where a page is written.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    templates = Environment(
        loader=PackageLoader("nearveil.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return templates

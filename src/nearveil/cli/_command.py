"""Commands and options on click: help under headings, lengths such as 500m, and errors that name options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from nearveil.cli._output import with_options
from nearveil.errors import NearveilError
from nearveil.lengths import meters

Function = TypeVar("Function", bound=Callable[..., Any])


class Option(click.Option):
    """An option with the heading that it has in the help."""

    def __init__(self, *args: Any, heading: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what the help adds; a default in words has no parentheses of its own."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        return extra


class Command(click.Command):
    """A command that shows its options under headings, and names options in errors about Python parameters."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None and isinstance(each, click.Option):
                headings.setdefault(getattr(each, "heading", "Options"), []).append(record)
        # What every command has comes last.
        for heading in sorted(headings, key="Options".__eq__):
            with formatter.section(heading):
                formatter.write_dl(headings[heading])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except NearveilError as error:
            error.args = (with_options(str(error)),)
            raise


class Group(Command, click.Group):
    """A verb that has verbs of its own."""

    command_class = Command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class Length(click.ParamType[float]):
    """A length such as 500m, 0.5km or 0.3mi, in meters."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a length."""
        del ctx
        return meters(str(value), param.opts[0] if param else "a length")


def command(**kwargs: Any) -> Callable[[Callable[..., Any]], Command]:
    """Turn a function into a command."""
    return click.command(cls=Command, **kwargs)


def group(**kwargs: Any) -> Callable[[Callable[..., Any]], Group]:
    """Turn a function into a verb that has verbs of its own."""
    return click.group(cls=Group, **kwargs)


def under(heading: str, *options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Declare several options, all of which the help shows under one heading."""

    def decorate(function: Function) -> Function:
        before = len(getattr(function, "__click_params__", ()))
        for each in reversed(options):
            function = each(function)
        for declared in getattr(function, "__click_params__", ())[before:]:
            declared.heading = heading
        return function

    return decorate


def option(*names: str, **kwargs: Any) -> Callable[[Function], Function]:
    """Declare an option; ``heading`` says where the help shows it."""
    if isinstance(kwargs.get("type"), Length):
        kwargs.setdefault("metavar", "LENGTH")
    return click.option(*names, cls=Option, **kwargs)

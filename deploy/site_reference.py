"""What pages of the site take from the code: commands, settings of the service, routes, and the demo of Veil.

A page has a mark, such as ``<!-- generated: settings -->``, where ``make docs`` puts the text. So no page can be behind
the code, and nothing generated is committed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from fastapi import FastAPI

from nearveil.cli.main import VERBS
from nearveil.cli.main import nearveil as nearveil_command
from nearveil.cli.serve import OPTIONS
from nearveil.server import routes
from nearveil.server.openapi import PERSON, PLATFORM, describe
from nearveil.server.settings import KNOWN_SETTINGS

_JAVASCRIPT = Path(__file__).parents[1] / "clients" / "js"
_ONE_LINE = 10_000
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def filled_in(page: str) -> str:
    """Return a page with the generated text in place of its marks."""
    return MARK.sub(lambda mark: GENERATED[mark[1]](), page)


def settings_table() -> str:
    """Return the table of all settings of the service."""
    rows = ["| in the file | environment | option | default | meaning |", "|---|---|---|---|---|"]
    for each in KNOWN_SETTINGS.values():
        in_file = f"`{each.name}`" if each.only is None else ""
        variable = f"`{each.variable}`" if each.only != "option" else ""
        option = f"`{each.option}`" if each.name in OPTIONS else ""
        default = f"`{each.default}`" if each.default else ""
        rows.append(f"| {in_file} | {variable} | {option} | {default} | {_plain(each.help)} |")
    return "\n".join(rows)


def commands() -> str:
    """Return all commands with their arguments and options."""
    top = click.Context(nearveil_command, info_name="nearveil")
    found = {verb: nearveil_command.get_command(top, verb) for verb in VERBS}
    return "\n\n".join(part for verb, each in found.items() for part in _command(each, verb, top, level=2))


def _command(command: Any, name: str, parent: click.Context, *, level: int) -> Iterator[str]:
    # Click breaks lines for terminals, also within words; here they are one.
    context = click.Context(
        command, parent, info_name=name, terminal_width=_ONE_LINE, max_content_width=_ONE_LINE, show_default=True
    )
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    yield f"{'#' * level} {context.command_path}"
    yield "\n\n".join(_plain(" ".join(part.split())) for part in (command.help or "").replace("\b", "").split("\n\n"))
    yield f"```text\n{usage}\n```"
    headings: dict[str, list[str]] = {}
    for each in command.params:
        record = each.get_help_record(context)
        if record is not None:
            heading = getattr(each, "heading", "arguments")
            headings.setdefault(heading, []).append(f"| `{record[0].replace('|', ',')}` | {_plain(record[1])} |")
    for heading, rows in headings.items():
        yield "\n".join([f"| {heading.lower()} | meaning |", "|---|---|", *rows])
    for sub_name, sub in getattr(command, "commands", {}).items():
        yield from _command(sub, sub_name, context, level=level + 1)


def openapi() -> dict[str, Any]:
    """Return the description of the HTTP interface, as ``GET /openapi.json`` gives it."""
    api = FastAPI(openapi_url=None)
    for router in routes.ROUTERS:
        api.include_router(router)
    return describe(api)()


def http_routes() -> str:
    """Return all routes with what they need, take and answer."""
    document = openapi()
    schemas = document["components"]["schemas"]
    tags: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = operation.get("tags", ["service"])[0]
            tags.setdefault(tag, []).extend(_route(f"{method.upper()} {path}", operation, schemas))
    return "\n\n".join(part for tag, parts in tags.items() for part in (f"## {tag.capitalize()}", *parts))


def _route(name: str, operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    yield f"### {operation['summary']}"
    yield f"```http\n{name}\n```"
    if operation.get("description"):
        yield _plain(operation["description"])
    yield f"**Needs** {_needs(operation.get('security', []))}."
    if parameters := operation.get("parameters", []):
        rows = [
            _field(each["name"], each["schema"] | each, required=each.get("required", False)) for each in parameters
        ]
        yield "\n".join(["| parameter | type | meaning |", "|---|---|---|", *rows])
    if body := operation.get("requestBody"):
        for kind, content in body["content"].items():
            yield f"**Takes** `{kind}`:"
            yield from _fields(content.get("schema", {}), schemas)
            if "example" in content:
                yield f"```json\n{json.dumps(content['example'])}\n```"
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            for content in answer.get("content", {}).values():
                if fields := list(_fields(content.get("schema", {}), schemas)):
                    yield f"**Answers** {status} with"
                    yield from fields
    rows = [f"| {status} | {_plain(answer['description'])} |" for status, answer in operation["responses"].items()]
    yield "\n".join(["| status | meaning |", "|---|---|", *rows])


def _needs(security: list[dict[str, list[str]]]) -> str:
    words = []
    for way in security:
        if PLATFORM in way:
            scopes = " and ".join(f"`{scope}`" for scope in way[PLATFORM])
            words.append(f"a platform key with {scopes}" if scopes else "any platform key")
        if PERSON in way:
            words.append("a person's token")
    return ", or ".join(words) or "no key"


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    known = schemas.get(schema.get("$ref", "").rsplit("/", 1)[-1], schema)
    if properties := known.get("properties"):
        required = known.get("required", [])
        rows = [_field(name, each, required=name in required) for name, each in properties.items()]
        yield "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _field(name: str, schema: dict[str, Any], *, required: bool) -> str:
    words = [_plain(schema.get("description", ""))]
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        words.append(f"{low:,} to {high:,}.")
    if required:
        words.append("Required.")
    elif schema.get("default") not in (None, [], ""):
        words.append(f"Default: `{json.dumps(schema['default'])}`.")
    return f"| `{name}` | {_type(schema)} | {' '.join(word for word in words if word)} |"


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def veil_demo() -> str:
    """Return the demo with veil.js in it: a page that is read from disk cannot import a module."""
    demo = (_JAVASCRIPT / "demo.html").read_text(encoding="utf-8")
    veil = (_JAVASCRIPT / "veil.js").read_text(encoding="utf-8")
    return demo.replace('import { Veil } from "./veil.js";\n', veil)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it stands, in a cell of a table too; ``code`` of a docstring is code."""
    escaped = re.sub(r"([*_`\[\]<>|\\])", r"\\\1", " ".join(text.split()))
    return re.sub(r"\\`\\`([\w=.-]+)\\`\\`", r"`\1`", escaped)


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings_table,
    "routes": http_routes,
    "veil_demo": veil_demo,
}

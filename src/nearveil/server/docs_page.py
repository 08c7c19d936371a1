"""The page /docs: the description of the interface for people, as one HTML file without scripts and without a network.

It is made of the OpenAPI document alone, so that it is the same for every service of a version, and needs no key.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

Document = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --panel: #f7f8fa; --ink: #1d2126; --soft: #565e68; --line: #d9dee4;
  --accent: #00609a; --get: #00609a; --put: #8a5300; --post: #00704f; --delete: #b23b00; }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --panel: #1b1f26; --ink: #e6e8eb; --soft: #a8afb9;
  --line: #333a44; --accent: #7cbcf5; --get: #7cbcf5; --put: #f0b541; --post: #2cc295; --delete: #f4793b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 0 24px 48px; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: break-word; }
.columns { display: grid; grid-template-columns: 270px minmax(0, 1fr); gap: 40px; }
nav { position: sticky; top: 0; max-height: 100vh; overflow-y: auto; padding: 20px 0; font-size: .88rem; }
nav p { margin: 14px 0 4px; font-weight: 600; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { margin: 3px 0; }
h1 { font-size: 1.6rem; margin: 24px 0 8px; } h2 { font-size: 1.3rem; margin: 40px 0 8px; }
h3 { font-size: 1.05rem; margin: 0; } h4 { font-size: .95rem; margin: 16px 0 4px; }
p { margin: 0 0 10px; } a { color: var(--accent); text-underline-offset: 2px; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
code, pre { font: .86rem/1.45 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; }
pre { margin: 6px 0; padding: 10px 12px; background: var(--page); border: 1px solid var(--line); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: 8px; background: var(--panel); margin: 10px 0; }
summary { cursor: pointer; padding: 10px 14px; }
summary code { font-size: .92rem; overflow-wrap: anywhere; }
summary h3 { display: inline; font-weight: 400; }
.inside { padding: 0 14px 12px; }
.method { display: inline-block; min-width: 5em; font-size: .85rem; font-weight: 700; }
.get { color: var(--get); } .put { color: var(--put); } .post { color: var(--post); } .delete { color: var(--delete); }
.soft { color: var(--soft); } .what { display: block; color: var(--soft); font-size: .92rem; margin-left: 20px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: 5px 12px 5px 0; border-top: 1px solid var(--line); }
th { border-top: 0; color: var(--soft); font-weight: 600; } td:first-child { white-space: nowrap; }
@media (max-width: 800px) { body { padding: 0 14px 32px; } .columns { display: block; }
  nav { position: static; max-height: none; border-bottom: 1px solid var(--line); }
  .what { margin-left: 0; } th, td { display: block; border: 0; padding: 0; } thead { display: none; }
  tr { display: block; padding: 6px 0; border-top: 1px solid var(--line); } td:first-child { white-space: normal; } }
"""

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"style-src 'sha256-{b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The page loads nothing, and the only style is the one in it."""

_HEADINGS = {"locations": "Locations", "people": "People", "operator": "For operators", "probes": "Probes"}


def docs_page(document: Document) -> str:
    """Return the page for an OpenAPI document."""
    operations = [(path, method, one) for path, methods in document["paths"].items() for method, one in methods.items()]
    by_tag = {tag: [each for each in operations if tag in each[2]["tags"]] for tag in _HEADINGS}
    info = document["info"]
    return "".join(
        (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(info['title'])} interface</title><style>{_STYLE}</style></head><body>",
            '<div class="columns">',
            _contents(by_tag),
            f"<main><h1>{escape(info['title'])} {escape(info['version'])}: the HTTP interface</h1>",
            _paragraphs(info["description"]),
            "<p>Every request but <code>/healthz</code> has the header <code>Authorization: Bearer</code> with a "
            "platform key or a person's token. The same description for programs is <code>GET /openapi.json</code>, "
            "with a key.</p>",
            *(_section(tag, some, document) for tag, some in by_tag.items()),
            "<h2 id='schemas'>Schemas</h2>",
            *(_schema(name, document) for name in sorted(document["components"]["schemas"])),
            "</main></div></body></html>",
        )
    )


def _contents(by_tag: Mapping[str, Sequence[tuple[str, str, Document]]]) -> str:
    parts = []
    for tag, operations in by_tag.items():
        links = "".join(
            f'<li><a href="#{escape(one["operationId"])}">{escape(one["summary"])}</a></li>' for _, _, one in operations
        )
        parts.append(f"<p>{_HEADINGS[tag]}</p><ul>{links}</ul>")
    return f'<nav aria-label="Contents">{"".join(parts)}<p><a href="#schemas">Schemas</a></p></nav>'


def _section(tag: str, operations: Sequence[tuple[str, str, Document]], document: Document) -> str:
    return f"<h2>{_HEADINGS[tag]}</h2>" + "".join(
        _operation(path, method, one, document) for path, method, one in operations
    )


def _operation(path: str, method: str, operation: Document, document: Document) -> str:
    body = operation.get("requestBody")
    return "".join(
        (
            f'<details id="{escape(operation["operationId"])}"><summary><h3>',
            f'<span class="method {method}">{method.upper()}</span><code>{escape(path)}</code>',
            f'<span class="what">{escape(operation["summary"])}</span></h3></summary><div class="inside">',
            _paragraphs(operation.get("description", "")),
            f'<p class="soft">{_who(operation)}</p>',
            _parameters(operation, document),
            "" if body is None else _body(body, document),
            f"<h4>Try it</h4><pre>{escape(_curl(path, method, operation))}</pre>",
            _answers(operation, document),
            "</div></details>",
        )
    )


def _who(operation: Document) -> str:
    keys = {name: scopes for each in operation.get("security", ()) for name, scopes in each.items()}
    if not keys:
        return "Needs no key."
    scopes = " and ".join(f"<code>{escape(scope)}</code>" for scope in keys.get("platformKey", ()))
    platform = f"a platform key with {scopes}" if scopes else "any platform key"
    return f"Takes {platform}{', or a person&#x27;s token' if 'personToken' in keys else ''}."


def _parameters(operation: Document, document: Document) -> str:
    rows = [
        (f"<code>{escape(one['name'])}</code>", _type(one["schema"], document), _text(one.get("description", "")))
        for one in operation.get("parameters", ())
    ]
    return f"<h4>In the path or the query</h4>{_table(('name', 'type', ''), rows)}" if rows else ""


def _body(body: Document, document: Document) -> str:
    content = body["content"]["application/json"]
    schema = content["schema"]
    fields = _fields(_resolved(schema, document), document)
    return f"<h4>Body: {_type(schema, document)}</h4>{fields}"


def _curl(path: str, method: str, operation: Document) -> str:
    address = "http://127.0.0.1:8000" + path.replace("{id}", "ann").replace("{other}", "bob").replace(
        "{name}", "web-shop"
    )
    parts = [f"curl -s{'' if method == 'get' else ' -X ' + method.upper()} {address}"]
    if operation.get("security"):
        parts.append('-H "Authorization: Bearer $KEY"')
    if "requestBody" in operation:
        example = json.dumps(operation["requestBody"]["content"]["application/json"]["example"])
        parts.append(f"--json '{example}'")
    return " ".join(parts)


_NOTHING_SAID = "Successful Response"
"""FastAPI's words where there are none of ours."""


def _answers(operation: Document, document: Document) -> str:
    rows = []
    for status, answer in sorted(operation["responses"].items()):
        kinds = [content["schema"] for content in answer.get("content", {}).values() if "schema" in content]
        names = [name for content in answer.get("content", {}).values() for name in content.get("examples", ())]
        problems = ", ".join(f"<code>{escape(name)}</code>" for name in names)
        shown = problems or "".join(_type(kind, document) for kind in kinds)
        about = answer["description"]
        if about == _NOTHING_SAID:
            about = "".join(_resolved(kind, document).get("description", "") for kind in kinds)
        rows.append((f"<code>{escape(status)}</code>", shown, _text(about)))
    return f"<h4>Answers</h4>{_table(('status', 'what', ''), rows)}"


def _schema(name: str, document: Document) -> str:
    schema = document["components"]["schemas"][name]
    return (
        f'<details id="schema-{escape(name)}"><summary><h3><code>{escape(name)}</code></h3></summary>'
        '<div class="inside">'
        f"{_paragraphs(schema.get('description', ''))}{_fields(schema, document)}</div></details>"
    )


def _fields(schema: Document, document: Document) -> str:
    needed = set(schema.get("required", ()))
    rows = [
        (
            f"<code>{escape(name)}</code>{'' if name in needed else ' <span class=soft>optional</span>'}",
            _type(field, document),
            _text(". ".join(part.rstrip(".") for part in (field.get("description", ""), _limits(field)) if part)),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    if rows:
        return _table(("field", "type", ""), rows)
    values = ", ".join(f"<code>{escape(str(value))}</code>" for value in schema.get("enum", ()))
    return f"<p>One of {values}.</p>" if values else ""


_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}


def _limits(field: Document) -> str:
    whole = {**next(_choices(field)), **field}
    limits = [words.format(f"{whole[name]:,.10g}") for name, words in _LIMITS.items() if name in whole]
    if field.get("default") not in (None, []):
        limits.append(f"{json.dumps(field['default'])} if left out")
    return ", ".join(limits).capitalize()


def _choices(field: Document) -> Iterator[Document]:
    yield from field.get("anyOf", (field,))


def _type(field: Document, document: Document) -> str:
    """Return the type of a field in words, with links to schemas."""
    if "anyOf" in field:
        return " or ".join(_type(choice, document) for choice in _choices(field))
    if "$ref" in field:
        name = escape(field["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}), document)}"
    return escape(str(field.get("type", "anything")))


def _resolved(schema: Document, document: Document) -> Document:
    if "$ref" not in schema:
        return schema
    found: Document = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(one)}</th>" for one in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_text(part)}</p>" for part in re.split(r"\n\s*\n", text.strip()) if part)


def _text(text: str) -> str:
    return re.sub(r"`{1,2}([^`]+)`{1,2}", r"<code>\1</code>", escape(text))

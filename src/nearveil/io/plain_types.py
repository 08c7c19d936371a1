"""Arrow types without what a file says of them besides: bounds and centres of true places may hide there."""

from __future__ import annotations

import pyarrow as pa


def plain_field(field: pa.Field) -> pa.Field:
    """Return a column's or a part's name and type alone.

    Categories become their values: a dictionary lists them in the order in which they first came. Extension types
    become what they store, since their parameters may be any text; a UUID has none. Views of text and bytes become
    text and bytes, because Arrow cannot take rows of them.

    Examples
    --------
    >>> part = pa.field("age", pa.dictionary(pa.int8(), pa.string_view()), metadata={"centre": "37.7749"})
    >>> plain_field(pa.field("person", pa.struct([part])))
    pyarrow.Field<person: struct<age: large_string>>
    """
    return pa.field(field.name, _plain(field.type), field.nullable)


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return kind if isinstance(kind, pa.UuidType) else _plain(kind.storage_type)
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([plain_field(part) for part in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(plain_field(kind.value_field), kind.list_size)
    for is_list, list_of in _LISTS:
        if is_list(kind):
            return list_of(plain_field(kind.value_field))
    return kind


_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)

"""Everything Nearveil raises on purpose.

The tree::

    NearveilError
    ├── UsageError      a parameter or option is wrong            exit code 2
    ├── DataError       the people's data cannot be used          exit code 3
    └── OutputError     the result cannot be written              exit code 4

Rooms that have errors of their own keep them beside what raises them: `audit.subject.AuditError` (exit code 4) and
`privacy.ledger.OverspentError` (exit code 5).

Messages are one sentence that says what is wrong and what to do. They name rows, columns and options, and
never a coordinate: an error message ends up in logs.
"""


class NearveilError(Exception):
    """Base of every error that is not a bug."""

    exit_code = 1


class UsageError(NearveilError, ValueError):
    """A parameter or option has a value that cannot be used."""

    exit_code = 2


class DataError(NearveilError, ValueError):
    """The people's data cannot be used as it is."""

    exit_code = 3


class OutputError(NearveilError, OSError):
    """The result cannot be written."""

    exit_code = 4

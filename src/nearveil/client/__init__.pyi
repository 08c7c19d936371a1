"""Public names by the module that each is defined in; each is loaded on first use."""

from .calls import (
    IssuedToken as IssuedToken,
)
from .calls import (
    LocationReport as LocationReport,
)
from .calls import (
    Receipt as Receipt,
)
from .calls import (
    ServiceError as ServiceError,
)
from .calls import (
    UnreachableError as UnreachableError,
)
from .http import AsyncClient as AsyncClient
from .http import Client as Client

__all__: list[str]

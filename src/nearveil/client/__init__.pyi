"""Public names by the module that each is defined in; each is loaded on first use."""

from .calls import (
    IssuedToken as IssuedToken,
    LocationReport as LocationReport,
    Receipt as Receipt,
    ServiceError as ServiceError,
    UnreachableError as UnreachableError,
)
from .http import AsyncClient as AsyncClient, Client as Client

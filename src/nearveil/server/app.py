"""The ASGI application: hot routes first, then a guard, then FastAPI."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from nearveil.server import routes
from nearveil.server.asgi import App
from nearveil.server.guard import AccessLog, Guard, Traced
from nearveil.server.hot_path import HotRoutes
from nearveil.server.openapi import describe
from nearveil.server.problems import invalid, method_not_allowed, not_found
from nearveil.server.service import Service


def create_app(service: Service) -> App:
    """Return the application of a service; the caller starts and closes the service."""
    app: App = create_api(service).state.hot
    if service.settings.access_log:
        app = AccessLog(app, service.audit_log.caller_name)
    return app if service.traces is None else Traced(app, service.traces)


def create_api(service: Service) -> FastAPI:
    """Return all routes, guarded, without the fast way to the hot ones."""
    # Operations have the names of their functions: generated clients take theirs from it.
    api = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    api.state.service = service
    api.state.hot = HotRoutes(service, api)
    for router in routes.ROUTERS:
        api.include_router(router)
    if service.settings.console:
        _include_console(api, service)
    api.add_exception_handler(HTTPException, _raise_as_problem)
    api.add_exception_handler(RequestValidationError, _raise_as_problem)
    api.add_middleware(Guard, service=service)
    api.openapi = describe(api)  # type: ignore[method-assign]
    return api


async def _raise_as_problem(_: Request, error: Exception) -> NoReturn:
    """Turn what FastAPI and Starlette refuse into problems, which the guard sends."""
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            raise method_not_allowed((error.headers or {}).get("Allow", "")) from None
        raise not_found() from None
    # The only thing that FastAPI is left to check.
    raise invalid("The id or name in the path is not valid.") from None


def _include_console(api: FastAPI, service: Service) -> None:
    if find_spec("nearveil.server.console.routes") is None:
        return
    from nearveil.server.console.routes import console_router  # noqa: PLC0415

    api.include_router(console_router(service))

"""A Starlette route that does nothing: what a question could cost at best. Run with a port as argument."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

IDS = [f"person-{number:07d}" for number in range(10)]


async def nearby(_: Request) -> JSONResponse:
    """Answer the same ten ids, whatever was asked."""
    return JSONResponse({"ids": IDS})


def main() -> None:
    """Serve with the same event loop and parser as the service."""
    uvicorn.run(
        Starlette(routes=[Route("/v1/nearby", nearby, methods=["POST"])]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
    )


if __name__ == "__main__":
    main()

"""An app whose users are in PostGIS: who is near is answered from noisy locations, in the app's own process.

DATABASE_URL names the database, NEARVEIL_KEYS_FILE the file of keys; see docs/guides/in-front-of-postgis.md.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

import psycopg
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from pydantic import BaseModel, Field

from nearveil import ChainBrokenError, DataError, Nearby

REGION = "san-francisco"
LOOK_EVERY_S = 10.0

_SESSION = "SELECT user_id FROM sessions WHERE token = %s"
# A code works once, and ends all sessions of before: those of a lost phone, too.
_SIGN_IN = """
    WITH used AS (DELETE FROM sign_in_codes WHERE code = %s AND expires > now() RETURNING user_id),
        ended AS (DELETE FROM sessions USING used WHERE sessions.user_id = used.user_id)
    INSERT INTO sessions (user_id) SELECT user_id FROM used RETURNING token, user_id::text"""
_NAMES = "SELECT id::text, name FROM users WHERE id = ANY(%s)"


class Report(BaseModel):
    """What a phone sends: where it is, and the receipt of its last report, which it keeps."""

    latitude: float
    longitude: float
    previous: str | None = None


class Question(BaseModel):
    """Where somebody asks: in the body, because servers and proxies write addresses with their queries into logs."""

    latitude: float
    longitude: float
    k: int = Field(default=10, ge=1, le=100)


class SignIn(BaseModel):
    """The code that the app has sent to somebody's mailbox."""

    code: str


def create_app(database: str, keys_file: str, clock: Callable[[], float] = time.time) -> FastAPI:
    """Return the app."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        nearby = await asyncio.to_thread(
            lambda: Nearby(database, region=REGION, noise_m=500, keys=keys_file, clock=clock)
        )
        app.state.nearby, app.state.database = nearby, database
        publishing = asyncio.create_task(_publish(nearby))
        yield
        publishing.cancel()
        with suppress(asyncio.CancelledError):
            await publishing
        nearby.close()

    app = FastAPI(title="People nearby", lifespan=life)
    app.post("/sessions")(sign_in)
    app.put("/me/location")(report)
    app.delete("/me/location")(hide)
    app.post("/nearby")(people_nearby)
    app.put("/me/blocked/{other}")(block)
    app.delete("/me/blocked/{other}")(unblock)
    app.delete("/me")(delete_account)
    return app


async def _publish(nearby: Nearby) -> None:
    """Publish when an epoch begins, and let lists follow; every process of the app does this."""
    while True:
        # A database that is away is asked again.
        with suppress(Exception):
            await asyncio.to_thread(nearby.publish_due)
        await asyncio.sleep(LOOK_EVERY_S)


def _rows(database: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def me(request: Request, authorization: Annotated[str, Header()] = "") -> str:
    """Return who asks, as the app knows it: by a session."""
    found = _rows(request.app.state.database, _SESSION, authorization.removeprefix("Bearer "))
    if not found:
        raise HTTPException(401, "sign in first")
    return str(found[0][0])


Me = Annotated[str, Depends(me)]


def sign_in(request: Request, given: SignIn) -> dict[str, str]:
    """Begin a session by a code from the mailbox: on a new phone, or after 409.

    This lets the next report begin a new chain. A session alone must not do that: whoever steals one could report
    guesses.
    """
    found = _rows(request.app.state.database, _SIGN_IN, given.code)
    if not found:
        raise HTTPException(401, "this code was used, or is too old: ask for another")
    token, who = found[0]
    request.app.state.nearby.end_chain(who)
    return {"token": token}


def report(request: Request, who: Me, place: Report) -> dict[str, Any]:
    """Take a location. The answer is the same wherever somebody is, but for the receipt."""
    try:
        answer = request.app.state.nearby.report(who, place.latitude, place.longitude, previous=place.previous)
    except ChainBrokenError:
        raise HTTPException(
            409, "somebody else reports for you, or this is a new phone: sign in with a new code"
        ) from None
    except DataError as error:
        raise HTTPException(422, str(error)) from None
    return {"receipt": answer.receipt, "publishes_at": answer.publishes_at}


def people_nearby(request: Request, who: Me, asked: Question) -> list[dict[str, str]]:
    """Return who is near, nearest first, with what the app knows about them; no distance and no place."""
    try:
        ids = request.app.state.nearby.nearby(asked.latitude, asked.longitude, asked.k, asker=who)
    except DataError as error:
        raise HTTPException(422, str(error)) from None
    names = dict(_rows(request.app.state.database, _NAMES, [int(one) for one in ids]))
    return [{"id": one, "name": names[one]} for one in ids if one in names]


def block(request: Request, who: Me, other: str) -> dict[str, bool]:
    """Let neither of us find the other."""
    if other == who or not request.app.state.nearby.block(who, other):
        raise HTTPException(404, "there is no such other person")
    return {"blocked": True}


def unblock(request: Request, who: Me, other: str) -> dict[str, bool]:
    """Block somebody no more."""
    request.app.state.nearby.unblock(who, other)
    return {"blocked": False}


def hide(request: Request, who: Me) -> dict[str, bool]:
    """Take me off the map until I report again."""
    return {"hidden": request.app.state.nearby.withdraw(who)}


def delete_account(request: Request, who: Me) -> dict[str, bool]:
    """Erase everything about me."""
    request.app.state.nearby.forget(who)
    _rows(request.app.state.database, "DELETE FROM users WHERE id = %s", int(who))
    return {"deleted": True}


def main() -> FastAPI:
    """Return the app of the environment: ``uvicorn --factory app:main``."""
    return create_app(os.environ["DATABASE_URL"], os.environ["NEARVEIL_KEYS_FILE"])

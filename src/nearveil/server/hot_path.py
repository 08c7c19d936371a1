"""The two routes that are called by the thousand, questions and reports, as plain ASGI in front of everything else.

They do what the other routes do, in the same order: who calls, how often, whose id, the body, the answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from nearveil.errors import DataError
from nearveil.nearby.index import Filter
from nearveil.nearby.publishing.publisher import Answer, Report, Status
from nearveil.nearby.stores.base import is_person_id
from nearveil.server.asgi import (
    MOST_BYTES,
    MOST_BYTES_OF_QUESTION,
    Answers,
    App,
    ClientLeftError,
    RawHeaders,
    Receive,
    Scope,
    Send,
    authorization_of,
    check_headers,
    check_size,
    read_body,
)
from nearveil.server.auth import Caller
from nearveil.server.guard import CALLER
from nearveil.server.models import (
    LocationReport,
    LocationReports,
    Place,
    Question,
    parsed,
    parsed_value,
    validation_problem,
)
from nearveil.server.problems import (
    Problem,
    chain_broken,
    forbidden,
    invalid,
    not_found,
    not_ready,
    outside_region,
    problem_body,
    problem_of,
)
from nearveil.server.reports import Reply
from nearveil.server.scopes import ROUTES
from nearveil.server.service import Service

NEARBY_PATH = "/v1/nearby"
_LOCATION = re.compile(r"/v1/people/[^/]+/location")
Wanted = tuple[float, float, int, str | None, float | None, Filter[str] | None]
"""Location in metres, k, the id to leave out, the largest distance in metres, and who may be found."""

WholeAnswer = tuple[int, RawHeaders, bytes]
"""Status, headers and body."""

_ASK_RULE = ROUTES["POST", NEARBY_PATH]
_REPORT_RULE = ROUTES["PUT", "/v1/people/{id}/location"]
_QUESTION_FIELDS = frozenset(Question.model_fields)
_PLACE_FIELDS = frozenset(Place.model_fields)
_ANSWER_BYTES = 128


class HotRoutes:
    """Answers questions and takes reports; hands everything else on.

    Parameters
    ----------
    service : Service
        What answers.
    rest : ASGI application
        For all other requests.
    """

    def __init__(self, service: Service, rest: App) -> None:
        self._service = service
        self._rest = rest
        self._answers = Answers()
        self._parse_question = Question.__pydantic_validator__.validate_json
        self._parse_place = Place.__pydantic_validator__.validate_json

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            method = scope["method"]
            if method == "POST" and scope["path"] == NEARBY_PATH:
                await self._guarded(self.ask, scope, receive, send)
                return
            if method == "PUT" and _LOCATION.fullmatch(scope["path"]):
                arrived = time.perf_counter()
                if await self._guarded(self.report, scope, receive, send):
                    self._service.metrics.report_answered(time.perf_counter() - arrived)
                return
        await self._rest(scope, receive, send)

    async def _guarded(
        self,
        handle: Callable[[Scope, Receive], Awaitable[tuple[int, bytes]]],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> bool:
        """Answer a request; whether it was not refused."""
        try:
            status, body = await handle(scope, receive)
        except ClientLeftError:
            return False
        except Exception as error:
            problem = problem_of(error)
            self._service.metrics.rejected(problem.name)
            await self._answers.send_problem(send, problem)
            return False
        await self._answers.send_json(send, status, body)
        return True

    # -- questions -------------------------------------------------------------------------------------------

    async def ask(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        """Answer who is near."""
        service, headers = self._service, scope["headers"]
        caller = scope[CALLER] = scope.get(CALLER) or await service.admit(authorization_of(headers))
        body = await read_body(receive, headers, MOST_BYTES_OF_QUESTION)
        started = time.perf_counter()
        question = self._question(caller, body)
        asker = _asker(caller, question)
        epoch = self._epoch()
        if caller.kind == "platform" and asker is not None and not await service.knows(asker):
            raise invalid("asker: there is no person with this id.")
        x_m, y_m = self._place(question, asker, caller)
        wanted = self._wanted(question, asker, caller, x_m, y_m, epoch)
        ids = service.index.ranked_metres(*wanted)
        return 200, self._found(ids, started, question, asker, caller, epoch)

    def known_caller(self, headers: RawHeaders) -> Caller | None:
        """Return the caller, if the store is not needed for that."""
        return self._service.known_caller(authorization_of(headers))

    def needs_store(self, caller: Caller, body: bytes) -> bool:
        """Whether a question names an asker of whom only the store can say whether there is such a person."""
        if caller.kind != "platform" or not (b"asker" in body or b"\\" in body):
            return False
        try:
            asker = self._parse_question(body).asker
        except ValidationError:
            return False
        return asker is not None and not self._service.remembers(asker)

    def answer_now(self, caller: Caller, headers: RawHeaders, body: bytes) -> WholeAnswer:
        """Answer a question that has arrived whole and does not need the store."""
        self._service.right_of_way.give()
        try:
            self._service.spend(caller)
            check_headers(headers, MOST_BYTES_OF_QUESTION)
            started = time.perf_counter()
            question = self._question(caller, check_size(body, MOST_BYTES_OF_QUESTION))
            asker = _asker(caller, question)
            epoch = self._epoch()
            wanted = self._wanted(question, asker, caller, *self._place(question, asker, caller), epoch)
            ids = self._service.index.ranked_metres(*wanted)
            answer = self._found(ids, started, question, asker, caller, epoch)
        except Exception as error:
            return self._refused(error)
        return 200, self._answers.json_headers(200, answer), answer

    def _refused(self, error: Exception) -> WholeAnswer:
        problem = problem_of(error)
        self._service.metrics.rejected(problem.name)
        body = problem_body(problem)
        return problem.status, self._answers.problem_headers(problem, body), body

    def _question(self, caller: Caller, body: bytes) -> Question:
        caller.check(_ASK_RULE)
        try:
            question: Question = self._parse_question(body)
        except ValidationError as error:
            raise validation_problem(error, _QUESTION_FIELDS) from None
        return question

    def _wanted(
        self, question: Question, asker: str | None, caller: Caller, x_m: float, y_m: float, epoch: int
    ) -> Wanted:
        """Return what is asked for."""
        after = question.after
        last = None if after is None else self._service.cursors.read(after, question, caller, asker, epoch)
        filtered = self._service.filters.filter_of(
            asker=asker, only=question.only, exclude=question.exclude, after=last
        )
        return x_m, y_m, question.k, asker, question.within_m, filtered

    def _found(
        self, ids: list[str], started: float, question: Question, asker: str | None, caller: Caller, epoch: int
    ) -> bytes:
        answer: dict[str, Any] = {"ids": ids}
        if question.paged or question.after is not None:
            # A page that is not full is the last one.
            is_last = len(ids) < question.k
            answer["next"] = None if is_last else self._service.cursors.write(ids[-1], question, caller, asker, epoch)
        # Stores take ids that JSON has to escape; `Nearby` may have added them.
        encoded = to_json(answer)
        self._service.metrics.question(time.perf_counter() - started)
        return encoded

    def _epoch(self) -> int:
        """Return the epoch that is answered from."""
        epoch = self._service.scheduler.epoch
        if epoch is None:
            raise not_ready()
        return epoch

    def _place(self, question: Question, asker: str | None, caller: Caller) -> tuple[float, float]:
        """Return the place asked about, once it is known to be one and the asker may ask."""
        if asker is not None:
            # First: neither the number of somebody's questions nor what is left to them tells that they are outside.
            self._service.frequent_askers.count(asker)
            if caller.kind == "platform":
                self._service.spend_for(asker)
        return self._to_metres(question)

    # -- reports ---------------------------------------------------------------------------------------------

    async def report(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        """Take a report, and answer when it is kept."""
        service, headers = self._service, scope["headers"]
        caller = scope[CALLER] = scope.get(CALLER) or await service.admit(authorization_of(headers))
        person = scope["path"].split("/")[3]
        self._check_reporter(caller, person)
        body = await read_body(receive, headers, MOST_BYTES)
        answer = await service.reports.submit(self._reported(caller, person, self._placed(body)))
        return 202, self._taken(person, answer)

    async def report_many(self, caller: Caller, body: bytes) -> bytes:
        """Take many reports of a platform, and answer when all are kept or refused, each for itself."""
        sent = parsed(LocationReports, body).reports
        # The request itself is counted already.
        self._service.limits.owe(caller, len(sent) - 1)
        read = [self._read_report(caller, one) for one in sent]
        kept = iter(await self._service.reports.submit_all([one for one in read if isinstance(one, Report)]))
        return b'{"answers":[%b]}' % b",".join(
            self._refused_in_list(one) if isinstance(one, Problem) else self._settled_in_list(one.person, next(kept))
            for one in read
        )

    def _read_report(self, caller: Caller, sent: Any) -> Report | Problem:
        """Return one of many reports, or why it is none."""
        try:
            report = parsed_value(LocationReport, sent)
            return self._reported(caller, report.id, report)
        except Problem as problem:
            return problem

    def _settled_in_list(self, person: str, reply: Reply) -> bytes:
        try:
            if isinstance(reply, Problem):
                raise reply
            return self._taken(person, reply)
        except Problem as problem:
            return self._refused_in_list(problem)

    def _refused_in_list(self, problem: Problem) -> bytes:
        self._service.metrics.rejected(problem.name)
        return problem_body(problem, in_list=True)

    def report_now(
        self, caller: Caller, person: str, headers: RawHeaders, body: bytes, done: Callable[[WholeAnswer], None]
    ) -> WholeAnswer | None:
        """Take a report that has arrived whole; it is answered by ``done`` when it is kept, or refused at once."""
        arrived = time.perf_counter()

        def settle(reply: Reply) -> None:
            try:
                if isinstance(reply, Problem):
                    raise reply
                answer = self._taken(person, reply)
            except Exception as error:
                done(self._refused(error))
                return
            done((202, self._answers.json_headers(202, answer), answer))
            self._service.metrics.report_answered(time.perf_counter() - arrived)

        try:
            self._service.spend(caller)
            self._check_reporter(caller, person)
            check_headers(headers, MOST_BYTES)
            report = self._reported(caller, person, self._placed(check_size(body, MOST_BYTES)))
            self._service.reports.submit_then(report, settle)
        except Exception as error:
            return self._refused(error)
        return None

    def _check_reporter(self, caller: Caller, person: str) -> None:
        if not is_person_id(person):
            raise invalid("The id in the path is not valid.")
        caller.check(_REPORT_RULE, person)

    def _placed(self, body: bytes) -> Place:
        try:
            place: Place = self._parse_place(body)
        except ValidationError as error:
            raise validation_problem(error, _PLACE_FIELDS) from None
        return place

    def _reported(self, caller: Caller, person: str, place: Place) -> Report:
        """Return what is reported of a person, once they may report."""
        # Charged wherever it is from: what is left must not tell that somebody is outside the region.
        if caller.kind == "platform":
            self._service.spend_for(person)
        x_m, y_m = self._to_metres(place)
        return Report(person, x_m, y_m, place.previous)

    def _taken(self, person: str, answer: Answer) -> bytes:
        if answer.status is Status.UNKNOWN_PERSON:
            self._service.forget(person)
            raise not_found()
        if answer.status is Status.CHAIN_BROKEN:
            raise chain_broken()
        return _report_taken(answer)

    def _to_metres(self, place: Place | Question) -> tuple[float, float]:
        try:
            return self._service.index.to_metres(place.latitude, place.longitude)
        except DataError:
            raise outside_region() from None


def _asker(caller: Caller, question: Question) -> str | None:
    """Return who asks: a token's person, or whom a platform says."""
    if caller.kind == "platform":
        return question.asker
    if question.asker is not None and question.asker != caller.name:
        raise forbidden()
    return caller.name


def _report_taken(answer: Answer) -> bytes:
    """Return the answer to a report, which is the same wherever the person is or was."""
    told = {"status": answer.status, "receipt": answer.receipt, "publishes_at": answer.publishes_at}
    return to_json(told).ljust(_ANSWER_BYTES)

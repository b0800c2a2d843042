"""The page Label: rows to label by one key each, a wall of guesses to correct, and training beside it."""

import json
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mmdgm.app.label_exports import export
from mmdgm.app.label_session import LabelSession
from mmdgm.app.server import make_site
from mmdgm.errors import InputError

MOST_EVENTS, MOST_QUESTIONS, MOST_TILES, MOST_LINES = 500, 2000, 500, 2000


def label_site(session: LabelSession) -> Starlette:
    """Return the site of a labeling."""

    def about(_: Request) -> Response:
        path = session.data.path.resolve()
        notes = [*session.data.notes, *session.store.notes]
        facts = {"name": path.name, "images": session.views.are_images, "labels": str(session.store.path)}
        return JSONResponse({**facts, "notes": notes, "state": session.state()})

    async def events(request: Request) -> Response:
        """Keep a browser's events, and return what is new since the version that it knows, with its next questions."""
        body = await _body(request)
        said = body.get("events", [])
        if not isinstance(said, list) or len(said) > MOST_EVENTS or not all(isinstance(each, dict) for each in said):
            raise InputError(f"events: a list of at most {MOST_EVENTS} objects is expected")
        who, want = str(body.get("who", ""))[:100], min(_number(body.get("want", 0)), MOST_QUESTIONS)
        since, checks = _number(body.get("since", 0)), body.get("checks") is True

        def answer() -> dict[str, Any]:
            answers = session.add(who, said)
            return {
                "answers": answers,
                "lines": session.store.since(since)[:MOST_LINES],
                "questions": session.questions(who, want, checks=checks),
                "state": session.state(),
            }

        try:
            return JSONResponse(await run_in_threadpool(answer))
        except InputError as error:  # nothing was kept: the browser sends it again
            return JSONResponse({"error": str(error)}, status_code=507)

    def picture(request: Request) -> Response:
        content, kind = session.views.picture(_row(request), small="small" in request.query_params)
        return Response(content, media_type=kind)

    def card(request: Request) -> Response:
        return JSONResponse(session.views.card(_row(request)))

    def wall(request: Request) -> Response:
        asked = request.query_params
        start, n = _number(asked.get("start", 0)), min(_number(asked.get("n", 60)), MOST_TILES)
        return JSONResponse(session.wall(asked.get("class", ""), labeled="labeled" in asked, start=start, n=n))

    async def train(request: Request) -> Response:
        body = await _body(request)
        do, minutes = body.get("do"), body.get("minutes")
        if minutes is not None and not (type(minutes) in (int, float) and 0 < minutes <= 10_000):
            raise InputError("minutes: give a number above 0")
        work = {
            "start": lambda: session.train(minutes),
            "cancel": session.training.cancel,
            "resume": lambda: session.training.resume(minutes=minutes),
        }
        if do not in work:
            raise InputError("do: start, cancel or resume")
        await run_in_threadpool(work[do])
        return JSONResponse(await run_in_threadpool(session.state))

    async def source(request: Request) -> Response:
        session.use(str((await _body(request)).get("source")))
        return JSONResponse(await run_in_threadpool(session.state))

    def download(request: Request) -> Response:
        made = export(session, request.path_params["name"])
        headers = {"Content-Disposition": f'attachment; filename="{made.name}"'}
        return Response(made.content, media_type=made.media_type, headers=headers)

    def _row(request: Request) -> int:
        row: int = request.path_params["row"]
        if row >= len(session.views):
            raise InputError(f"row {row}: there are {len(session.views)} rows")
        return row

    return make_site(
        "label.html",
        [
            Route("/api/label", about),
            Route("/api/label/events", events, methods=["POST"]),
            Route("/api/label/picture/{row:int}", picture),
            Route("/api/label/card/{row:int}", card),
            Route("/api/label/wall", wall),
            Route("/api/label/train", train, methods=["POST"]),
            Route("/api/label/source", source, methods=["POST"]),
            Route("/api/label/export/{name}", download),
        ],
    )


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError("the request's body is no JSON object")
    return body


def _number(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        raise InputError("a number is expected") from None

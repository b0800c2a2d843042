"""The page Label: rows to label by one key each, a wall of guesses to correct, and training beside it."""

from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mmdgm.app.answers import parse
from mmdgm.app.label_exports import export
from mmdgm.app.label_session import LabelSession
from mmdgm.app.server import make_site
from mmdgm.errors import InputError

MOST_EVENTS, MOST_QUESTIONS, MOST_TILES, MOST_LINES = 500, 2000, 500, 2000
LONGEST = 10_000  # minutes of training


def label_site(session: LabelSession) -> Starlette:
    """Return the site of a labeling."""
    answers = _Answers(session)
    return make_site(
        "label.html",
        [
            Route("/api/label", answers.about),
            Route("/api/label/events", answers.events, methods=["POST"]),
            Route("/api/label/picture/{row:int}", answers.picture),
            Route("/api/label/card/{row:int}", answers.card),
            Route("/api/label/wall", answers.wall),
            Route("/api/label/train", answers.train, methods=["POST"]),
            Route("/api/label/source", answers.source, methods=["POST"]),
            Route("/api/label/export/{name}", answers.download),
        ],
    )


class _Answers:
    """The answers to requests; those that are no coroutines run in threads."""

    def __init__(self, session: LabelSession):
        self.session = session

    def about(self, _: Request) -> Response:
        data, store = self.session.data, self.session.store
        facts = {"name": data.path.resolve().name, "images": self.session.views.are_images, "labels": str(store.path)}
        return JSONResponse({**facts, "notes": [*data.notes, *store.notes], "state": self.session.state()})

    async def events(self, request: Request) -> Response:
        """Keep a browser's events, and return what is new since the version that it knows, with its next questions."""
        body = parse(await request.body())
        said = body.get("events", [])
        if not isinstance(said, list) or len(said) > MOST_EVENTS or not all(isinstance(each, dict) for each in said):
            raise InputError(f"events: a list of at most {MOST_EVENTS} objects is expected")
        who, want = str(body.get("who", ""))[:100], min(_number(body.get("want", 0)), MOST_QUESTIONS)
        since, checks = _number(body.get("since", 0)), body.get("checks") is True

        def answer() -> dict[str, Any]:
            answers = self.session.add(who, said)
            lines = self.session.store.since(since)[:MOST_LINES]
            questions = self.session.questions(who, want, checks=checks)
            return {"answers": answers, "lines": lines, "questions": questions, "state": self.session.state()}

        try:
            return JSONResponse(await run_in_threadpool(answer))
        except InputError as error:  # nothing was kept: the browser sends it again
            return JSONResponse({"error": str(error)}, status_code=507)

    def picture(self, request: Request) -> Response:
        content, kind = self.session.views.picture(self._row(request), small="small" in request.query_params)
        return Response(content, media_type=kind)

    def card(self, request: Request) -> Response:
        return JSONResponse(self.session.views.card(self._row(request)))

    def wall(self, request: Request) -> Response:
        asked = request.query_params
        start, n = _number(asked.get("start", 0)), min(_number(asked.get("n", 60)), MOST_TILES)
        return JSONResponse(self.session.wall(asked.get("class", ""), labeled="labeled" in asked, start=start, n=n))

    async def train(self, request: Request) -> Response:
        body = parse(await request.body())
        do, minutes = body.get("do"), body.get("minutes")
        if minutes is not None and not (type(minutes) in (int, float) and 0 < minutes <= LONGEST):
            raise InputError("minutes: give a number above 0")
        if do == "start":
            await run_in_threadpool(self.session.train, minutes)
        elif do == "resume":
            await run_in_threadpool(self.session.training.resume, minutes=minutes)
        elif do == "cancel":
            await run_in_threadpool(self.session.training.cancel)
        else:
            raise InputError("do: start, cancel or resume")
        return JSONResponse(await run_in_threadpool(self.session.state))

    async def source(self, request: Request) -> Response:
        self.session.use(str(parse(await request.body()).get("source")))
        return JSONResponse(await run_in_threadpool(self.session.state))

    def download(self, request: Request) -> Response:
        made = export(self.session, request.path_params["name"])
        headers = {"Content-Disposition": f'attachment; filename="{made.name}"'}
        return Response(made.content, media_type=made.media_type, headers=headers)

    def _row(self, request: Request) -> int:
        row: int = request.path_params["row"]
        if row >= len(self.session.views):
            raise InputError(f"row {row}: there are {len(self.session.views)} rows")
        return row


def _number(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        raise InputError("a number is expected") from None

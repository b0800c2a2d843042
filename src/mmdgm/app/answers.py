"""Routes that answer JSON with JSON: the model is asked in the worker's thread."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mmdgm.app.worker import Worker
from mmdgm.errors import InputError

Asked = Mapping[str, Any]


def get_route(path: str, worker: Worker, function: Callable[[], Asked]) -> Route:
    """Return the route of a question without content."""

    async def answer(_: Request) -> Response:
        return JSONResponse(await worker.call(function))

    return Route(path, answer)


def json_route(path: str, worker: Worker, function: Callable[[Asked], Asked]) -> Route:
    """Return the route of a question with a JSON object as content."""

    async def answer(request: Request) -> Response:
        asked = parse(await request.body())
        return JSONResponse(await worker.call(lambda: function(asked)))

    return Route(path, answer, methods=["POST"])


def bytes_route(path: str, worker: Worker, function: Callable[[bytes], Asked]) -> Route:
    """Return the route of a file."""

    async def answer(request: Request) -> Response:
        content = await request.body()
        return JSONResponse(await worker.call(lambda: function(content)))

    return Route(path, answer, methods=["POST"])


def parse(content: bytes) -> Asked:
    """Return the JSON object in a request."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError("the request holds no JSON") from None
    if not isinstance(value, dict):
        raise InputError("the request holds no JSON object")
    return value

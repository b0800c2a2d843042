"""The server of a page, for this computer alone: it binds to the loopback address and asks for a token."""

import os
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from mmdgm.app.guard import Guard
from mmdgm.errors import InputError
from mmdgm.report.style import DARK, LIGHT, variables

STATIC = Path(__file__).parent / "static"
LOOPBACK = "127.0.0.1"
COLOURS = f":root {{ {variables(LIGHT)} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}\n"
MOST_CONNECTIONS = 200


def make_site(page: str, routes: Sequence[BaseRoute]) -> Starlette:
    """Return an app with this page of the static folder at `/`, the static files, and the routes of its answers.

    An InputError in a route becomes an answer with status 400 and {"error": its line}.
    """

    async def front(_: Request) -> Response:
        return FileResponse(STATIC / page)

    async def colours(_: Request) -> Response:
        return Response(COLOURS, media_type="text/css")

    def wrong_input(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=400)

    own: list[BaseRoute] = [
        Route("/", front),
        Route("/static/colours.css", colours),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=[*routes, *own], exception_handlers={InputError: wrong_input})


def bind(port: int | None) -> socket.socket:
    """Return a socket that is bound to a port of the loopback address; None: any free port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # a port is free as soon as its server has ended; on Windows this would share it
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port or 0))
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(f"--port {port}: {error.strerror}; leave --port out for a free one") from None
    return listener


class _Server(uvicorn.Server):
    """uvicorn's server, which ends in order also when its terminal is closed (SIGHUP)."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        hangup = getattr(signal, "SIGHUP", None)
        in_main = threading.current_thread() is threading.main_thread()
        with super().capture_signals():  # at its end, it raises the captured signals again
            if hangup is None or not in_main or signal.getsignal(hangup) is signal.SIG_IGN:
                yield
                return
            before = signal.signal(hangup, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(hangup, before)


class PageServer:
    """A site behind its guard, at a port that is already bound."""

    def __init__(self, site: ASGIApp, *, port: int | None = None, **limits: Any):
        self.listener, self.token = bind(port), token_urlsafe(32)
        self.port = int(self.listener.getsockname()[1])
        guard = Guard(site=site, port=self.port, token=self.token, **limits)
        self.server = _Server(
            uvicorn.Config(
                guard,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="off",
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=2,
            )
        )

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"http://{LOOPBACK}:{self.port}/?token={self.token}"

    def run(self) -> None:
        """Answer requests until SIGINT, SIGTERM or SIGHUP, which is then raised again for the caller."""
        self.server.run(sockets=[self.listener])

    def stop(self) -> None:
        """End `run`, from another thread."""
        self.server.should_exit = True


def serve(site: ASGIApp, *, port: int | None, browser: bool, tell: Callable[[str], None]) -> None:
    """Serve a site until the process is interrupted. `tell` is given the address as soon as it answers."""
    server = PageServer(site, port=port)
    tell(server.address)
    if browser:  # in a thread: some browsers return only when they are closed; requests wait until `run` answers
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    server.run()

"""The guard before a page: it lets through only requests of a browser that was given the address with the token.

Other web sites that are open in the same browser, other users of this computer and other computers get one line and
status 403. Every request must name this server (Host), so that no other name can be made to lead here. Requests
that change something must come from a page of this server (Origin). Bodies are limited in size and time.
"""

import asyncio
import hmac
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 8 * 2**20  # bytes of a body
SECONDS = 20.0  # for a body to arrive
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, kw_only=True)
class Guard:
    """ASGI middleware around `site`, which is served at 127.0.0.1:`port`."""

    site: ASGIApp
    port: int
    token: str
    largest: int = LARGEST
    seconds: float = SECONDS

    @property
    def cookie(self) -> str:
        """The cookie's name. Cookies are the same for all ports of a host, so the name holds the port."""
        return f"mmdgm-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.site(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        answer = self._refusal(scope["method"], headers) or self._entrance(scope, headers)
        if answer is None and scope["method"] not in ("GET", "HEAD"):
            body = await self._body(receive, headers)
            if isinstance(body, bytes):
                receive = _replayed(body, receive)
            else:
                answer = body
        await (answer or self.site)(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        """Return the answer to a request for another name, or of another site."""
        host = headers.get("host", "")
        if host not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            return _line(403, f"this server is http://127.0.0.1:{self.port} alone")
        if method not in ("GET", "HEAD"):
            own = headers.get("origin") == f"http://{host}"
            if not own or headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return _line(403, "the request comes from another site")
        return None

    def _entrance(self, scope: Scope, headers: Headers) -> Response | None:
        """Return None for a known browser, a cookie for a browser with the token, and 403 for all others."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._is_token(given):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if self._is_token(cookie_parser(headers.get("cookie", "")).get(self.cookie, "")):
            return None
        return _line(403, "open the address with the token, as `mmdgm app` printed it")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _body(self, receive: Receive, headers: Headers) -> bytes | Response:
        """Return the body, or the answer to one that is too large or too slow."""
        announced, parts, size = headers.get("content-length", "0"), [], 0
        too_large = _line(413, f"the request is larger than {self.largest / 2**20:g} MiB")
        if not announced.isdecimal() or int(announced) > self.largest:
            return too_large
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.largest:
                        return too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            return _line(408, f"the request took longer than {self.seconds:g} seconds to arrive")


def _line(status: int, text: str) -> Response:
    # the rest of a refused body is not read: the connection ends
    return PlainTextResponse(text + "\n", status_code=status, headers={"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives a body which was already read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed

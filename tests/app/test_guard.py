"""The guard: who is let in, and what is refused, over real connections."""

import http.client
import socket
import time

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from mmdgm.app import server as server_module
from mmdgm.app.guard import HEADERS
from mmdgm.app.server import PageServer, make_site
from mmdgm.errors import InputError
from tests.app.conftest import running


@pytest.fixture(scope="module")
def served():
    async def count(request: Request):
        return JSONResponse({"bytes": len(await request.body())})

    async def wrong(_: Request):
        raise InputError("the row has no such column")

    routes = [Route("/api/count", count, methods=["POST"]), Route("/api/wrong", wrong)]
    with running(make_site("play.html", routes), largest=1000, seconds=0.5) as server:
        yield server


def ask(server, method="GET", path="/", body=None, **headers):
    """(status, headers, body) of a request with the cookie and the own origin; a header None is left out."""
    own = f"127.0.0.1:{server.port}"
    given = {"Host": own, "Cookie": f"mmdgm-{server.port}={server.token}", "Origin": f"http://{own}"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None and "Content_Length" not in headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_the_address_with_the_token_gives_a_cookie_that_opens_the_page(served):
    status, headers, _ = ask(served, path=f"/?token={served.token}", Cookie=None)
    assert (status, headers["location"]) == (303, "/")
    name, _, rest = headers["set-cookie"].partition("=")
    assert name == f"mmdgm-{served.port}"
    value, *attributes = rest.split("; ")
    assert {part.lower() for part in attributes} == {"httponly", "path=/", "samesite=strict"}
    others = 'a={"b": [1, "c"]} d; é=ü; =; x'  # of other programs on this computer
    status, headers, body = ask(served, Cookie=f"{others}; {name}={value}".encode())
    assert status == 200
    assert body.startswith(b"<!doctype html>")
    assert {key: headers[key.lower()] for key in HEADERS} == HEADERS


@pytest.mark.parametrize(
    "change",
    [
        {"Cookie": None},
        {"Cookie": "mmdgm=x"},
        {"Cookie": "mmdgm-1=x"},
        {"path": "/?token=wrong", "Cookie": None},
        {"path": "/?token=", "Cookie": None},
        {"path": "/static/base.css", "Cookie": None},
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": None},
        {"method": "POST", "path": "/api/count", "Origin": "http://evil.example"},
        {"method": "POST", "path": "/api/count", "Origin": "null"},
        {"method": "POST", "path": "/api/count", "Origin": None},
        {"method": "POST", "path": "/api/count", "Origin": "http://127.0.0.1:1"},
        {"method": "POST", "path": "/api/count", "Sec_Fetch_Site": "same-site"},
        {"method": "DELETE", "path": "/", "Origin": "http://evil.example"},
    ],
    ids=str,
)
def test_strangers_get_one_line(served, change):
    status, headers, body = ask(served, **change)
    assert status == (400 if "Host" in change and change["Host"] is None else 403)  # HTTP itself asks for a Host
    assert len(body.splitlines()) == 1
    assert "set-cookie" not in headers
    assert served.token.encode() not in body


def test_a_cookie_of_another_server_on_this_host_is_no_key(served):
    with running(make_site("play.html", [])) as other:
        assert ask(served, Cookie=f"mmdgm-{other.port}={other.token}")[0] == 403
        both = f"mmdgm-{other.port}={other.token}; mmdgm-{served.port}={served.token}"
        assert [ask(server, Cookie=both)[0] for server in (served, other)] == [200, 200]


def test_bodies_are_limited(served):
    place = {"method": "POST", "path": "/api/count"}
    assert ask(served, body=b"x" * 1000, **place)[::2] == (200, b'{"bytes":1000}')
    assert ask(served, body=b"x" * 1001, **place)[0] == 413
    assert ask(served, Content_Length="99999999999", **place)[0] == 413
    chunks = b"".join(b"190\r\n" + b"x" * 400 + b"\r\n" for _ in range(3)) + b"0\r\n\r\n"
    assert ask(served, body=chunks, Transfer_Encoding="chunked", Content_Length=None, **place)[0] == 413
    began = time.monotonic()
    assert ask(served, body=b"x", Content_Length="5", **place)[0] == 408
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/%2e%2e/errors.py",
        "/static//etc/passwd",
        "/static/..%5cserver.py",
        "/static/",
        "/etc/passwd",
        "/static/%00",
    ],
)
def test_no_file_outside_the_static_folder_is_readable(served, path):
    assert ask(served, path=path)[0] in (404, 405)


def test_static_files_have_types_that_browsers_accept(served):
    for path in sorted(server_module.STATIC.iterdir()):
        status, headers, body = ask(served, path=f"/static/{path.name}")
        assert (status, body) == (200, path.read_bytes())
        kind = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".html": "text/html"}
        assert headers["content-type"].partition(";")[0] == kind[path.suffix]


def test_wrong_input_is_a_line_as_json(served):
    assert ask(served, path="/api/wrong")[::2] == (400, b'{"error":"the row has no such column"}')


def test_a_web_socket_is_refused(served):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Key": "eA==", "Origin": None}
    assert ask(served, path="/api/wrong", **upgrade)[0] == 400  # taken as a plain request


def test_the_server_listens_on_the_loopback_address_alone(served):
    assert served.listener.getsockname()[0] == "127.0.0.1"
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.2", served.port))


def test_a_port_in_use_is_a_line(served):
    with pytest.raises(InputError, match=f"--port {served.port}: .*leave --port out"):
        PageServer(PlainTextResponse("x"), port=served.port)

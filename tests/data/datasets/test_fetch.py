"""Downloads from a server in this process: whole files of the right hash, or one line and nothing left behind."""

import functools
import hashlib
import http.server
import io
import re
import sys
import threading
import time

import pytest
from rich.console import Console

from mmdgm.data import datasets
from mmdgm.data.datasets import fetch, sources
from mmdgm.data.datasets.sources import Source
from small_datasets import input_error

FILES = {"a.gz": b"first" * 1000, "b.mat": b"second" * 100_000, "c.mat": b"third"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        self.server.asked.append(self.path)

    def do_GET(self):
        if self.path == "/half":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            self.log_message()
        elif self.path == "/slow":
            time.sleep(0.2)
        else:
            super().do_GET()


@pytest.fixture(name="server")
def make_server(tmp_path, monkeypatch):
    """Serves FILES: mnist's are a.gz and b.mat, svhn's extra one is c.mat. `asked` holds the paths asked for."""
    served = tmp_path / "served"
    served.mkdir()
    for name, content in FILES.items():
        (served / name).write_bytes(content)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=served)) as server:
        server.asked = []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        offer(monkeypatch, *(source(server, name) for name in ("a.gz", "b.mat")))
        monkeypatch.setattr(sources, "EXTRA", (source(server, "c.mat"),))
        yield server
        server.shutdown()
        thread.join()


def source(server, name, *, sha256=None, url=None):
    content = FILES[name]
    return Source(name, url or f"{server.url}/{name}", len(content), sha256 or hashlib.sha256(content).hexdigest())


def offer(monkeypatch, *files):
    for name in ("mnist", "svhn"):
        monkeypatch.setitem(sources.SOURCES, name, files)


@pytest.fixture(name="download")
def make_download(tmp_path):
    """Download into a folder that is not there yet."""
    return functools.partial(
        datasets.download, data_dir=tmp_path / "new" / "data", console=Console(file=io.StringIO())
    )


def test_files_come_whole_and_are_readable_by_all(server, download, tmp_path):
    fetched = download("mnist")
    assert fetched == [tmp_path / "new" / "data" / "mnist" / name for name in ("a.gz", "b.mat")]
    for path in fetched:
        assert path.read_bytes() == FILES[path.name]
        assert path.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in fetched[0].parent.iterdir()) == ["a.gz", "b.mat"]


def test_what_is_there_is_not_fetched_again(server, download):
    first, second = download("mnist")
    server.asked.clear()
    assert download("mnist") == []
    assert server.asked == []
    second.write_bytes(FILES["b.mat"][:-1])
    assert download("mnist") == [second]
    assert second.read_bytes() == FILES["b.mat"]
    first.unlink()
    assert download("mnist") == [first]


def test_the_extra_file_comes_when_it_is_asked_for(server, download):
    assert [path.name for path in download("svhn")] == ["a.gz", "b.mat"]
    assert [path.name for path in download("svhn", extra=True)] == ["c.mat"]
    assert "only svhn" in input_error(download, "mnist", extra=True)


def test_embedded_data_need_no_download(server, download, tmp_path):
    assert download("digits") == []
    assert not (tmp_path / "new").exists()


def test_unknown_data_set_names_the_known_ones(download):
    assert "digits, mnist, fashion, svhn, norb" in input_error(download, "minst")


def faults(server):
    closed = http.server.HTTPServer(("127.0.0.1", 0), Quiet)
    closed.server_close()
    return {
        "wrong hash": ({"sha256": "0" * 64}, "official"),
        "missing": ({"url": f"{server.url}/nowhere"}, "the server says 404"),
        "half": ({"url": f"{server.url}/half"}, "cannot be fetched"),
        "no server": (
            {"url": f"http://127.0.0.1:{closed.server_port}/b.mat"},
            "cannot be fetched (ConnectionError)",
        ),
        "no address": ({"url": "http://"}, "cannot be fetched"),
    }


@pytest.mark.parametrize("fault", ["wrong hash", "missing", "half", "no server", "no address"])
def test_faults_are_one_line_and_leave_nothing_behind(server, download, tmp_path, monkeypatch, fault):
    options, words = faults(server)[fault]
    broken = source(server, "b.mat", **options)
    offer(monkeypatch, broken)
    message = input_error(download, "mnist")
    assert message.startswith(broken.url)
    assert words in message
    assert not (tmp_path / "new").exists()

    offer(monkeypatch, source(server, "a.gz"), broken)  # what came whole before stays, and nothing else
    assert words in input_error(download, "mnist")
    folder = tmp_path / "new" / "data" / "mnist"
    assert [path.name for path in folder.iterdir()] == ["a.gz"]


def test_a_file_that_cannot_be_replaced_well_stays_as_it_was(server, download, tmp_path, monkeypatch):
    offer(monkeypatch, source(server, "b.mat", sha256="0" * 64))
    path = tmp_path / "new" / "data" / "mnist" / "b.mat"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"mine")
    input_error(download, "mnist")
    assert path.read_bytes() == b"mine"


def test_a_slow_server_is_given_up(server, download, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", 0.05)
    offer(monkeypatch, source(server, "a.gz", url=f"{server.url}/slow"))
    assert "cannot be fetched (ReadTimeout)" in input_error(download, "mnist")


def test_a_folder_that_cannot_be_made_is_an_input_error(server, tmp_path):
    (tmp_path / "file").write_text("")
    message = input_error(datasets.download, "mnist", tmp_path / "file")
    assert message.startswith(str(tmp_path / "file" / "mnist" / "a.gz"))
    assert "Not a directory" in message


def test_an_interruption_leaves_nothing_behind(server, download, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch.Progress, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        download("mnist")
    assert not (tmp_path / "new").exists()


def test_without_pooch_the_line_says_how_to_get_it(server, download, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert "pip install pooch" in input_error(download, "mnist")
    assert not (tmp_path / "new").exists()


def test_a_bar_on_a_terminal_and_a_line_elsewhere(server, tmp_path):
    shown = {}
    for terminal in (True, False):
        file = io.StringIO()
        console = Console(file=file, force_terminal=terminal, width=100)
        datasets.download("mnist", tmp_path / str(terminal), console=console)
        shown[terminal] = file.getvalue()
    assert [line.split()[-1] for line in shown[False].splitlines()] == [
        f"{server.url}/a.gz",
        f"{server.url}/b.mat",
    ]
    assert "600.0/600.0 kB" in shown[True]
    assert "━" in shown[True]


def test_is_there_means_all_files_packed_or_not(server, tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name in ("a.gz", "b.mat"):
        assert not datasets.is_there("mnist", tmp_path)
        (folder / name).touch()
    assert datasets.is_there("mnist", tmp_path)
    (folder / "a.gz").rename(folder / "a")
    assert datasets.is_there("mnist", tmp_path)
    assert datasets.is_there("digits", tmp_path)


def test_the_table_is_complete_and_its_hashes_look_like_hashes():
    assert list(sources.SOURCES) == list(datasets.LOADERS)
    files = [file for name in sources.SOURCES for file in sources.sources_of(name, extra=name == "svhn")]
    assert [len(sources.SOURCES[name]) for name in sources.SOURCES] == [0, 4, 4, 2, 5]
    assert len({file.sha256 for file in files}) == len(files) == 16
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert re.fullmatch(r"https?://\S+/" + re.escape(file.name), file.url)
        assert file.length > 300

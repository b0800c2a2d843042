"""The command `mmdgm app`: what it refuses, what it prints, how it ends."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from mmdgm.cli import pages


def test_mistakes_are_one_line(refused, trained, monkeypatch):
    assert "or --demo" in refused("app")
    assert "or --demo" in refused("app", trained, "--demo")
    assert "--labels" in refused("app", trained, "--labels", "labels.csv")
    monkeypatch.setattr(pages, "find_spec", lambda name: None if name == "uvicorn" else importlib.util.find_spec(name))
    assert "pip install 'mmdgm[app]'" in refused("app", trained)


def test_a_port_in_use_is_one_line(refused, trained):
    pytest.importorskip("uvicorn")
    from mmdgm.app.server import bind

    with bind(None) as taken:
        port = taken.getsockname()[1]
        assert f"--port {port}: " in refused("app", trained, "--port", port, "--no-browser")


def heed_signals():
    """In a new process: its parent may be a job in the background, which ignores them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.slow
def test_the_page_answers_until_a_signal_ends_it(trained):
    pytest.importorskip("uvicorn")
    words = [sys.executable, "-m", "mmdgm", "app", str(trained), "--no-browser", "--json", "--device", "cpu"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "preexec_fn": heed_signals}
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    lines = {
        signal.SIGINT: "interrupted",
        signal.SIGTERM: "ended by SIGTERM",
        signal.SIGHUP: "ended by SIGHUP",
    }
    processes = {number: subprocess.Popen(words, env=environment, **options) for number in lines}
    try:
        for number, process in processes.items():
            address = json.loads("".join(process.stdout.readline() for _ in range(3)))["address"]
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert opener.open(address, timeout=20).read().startswith(b"<!doctype html>")
            process.send_signal(number)
            _, err = process.communicate(timeout=20)
            assert process.returncode == 128 + number
            assert err == f"mmdgm: {lines[number]}\n"
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()

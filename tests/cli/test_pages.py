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


@pytest.mark.slow
@pytest.mark.parametrize(("number", "line"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")])
def test_the_page_answers_until_a_signal_ends_it(trained, number, line):
    pytest.importorskip("uvicorn")
    words = [sys.executable, "-m", "mmdgm", "app", str(trained), "--no-browser", "--json", "--device", "cpu"]
    environment = {**os.environ, "MMDGM_DATA": "/nonexistent", "PYTHONWARNINGS": "error"}

    def heed():  # a parent in the background may ignore SIGINT
        signal.signal(signal.SIGINT, signal.default_int_handler)

    process = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed
    )
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        address = json.loads("".join(lines))["address"]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert opener.open(address, timeout=20).read().startswith(b"<!doctype html>")
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert err == f"mmdgm: {line}\n"

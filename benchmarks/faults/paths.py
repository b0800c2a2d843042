"""Paths that are none, and file systems that fail, in several commands: one line and exit code 2, or an answer."""

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from benchmarks.faults import SURVIVED
from benchmarks.faults.models import own_data
from mmdgm.cli import main
from mmdgm.files import fcntl
from tests.faults import failing

FAULT = "bad path or file system"
BAD = {
    "empty": "",
    "a name of 300 letters": "a" * 300,
    "a path of 5,000 letters": "a/" * 2500,
    "through a file": "own.npz/x",
    "a file": "own.npz",
    "a device": "/dev/null",
    "a full device": "/dev/full",
    "below /proc": "/proc/mmdgm/x",
    "a link to itself": "loop",
    "through a link to itself": "loop/x",
    "a link to nothing below a file": "nowhere",
}
GOOD = {
    "no UTF-8": os.fsdecode(b"r\xff\xfe"),
    "a line break": "one\ntwo",
    "a tabulator and quotes": "a\t'\"b",
    "blanks": "  a b  ",
    "Greek and emoji": "αβγ 🙂",
    "markup": "[red]a[/red]",
    "percent and braces": "%s{x}",
    "a trailing slash": "slash/",
    "two dots inside": "a/../b",
    "250 letters": "b" * 250,
}
SYSTEMS = {
    name: getattr(errno, name) for name in ("ENOSPC", "EROFS", "EDQUOT", "EIO", "EACCES", "EPERM", "ESTALE", "ENODEV")
}
NO_LOCKS = ("ENOTSUP", "ENOLCK", "ENOSYS", "EINVAL")
FIT = ("fit", "own.npz", "--epochs", "1", "--no-estimate", "--device", "cpu", "--run-dir")


def attacks(folder: Path, share: float) -> Iterator[tuple[str, str]]:
    own_data(folder)
    with contextlib.chdir(folder):
        Path("loop").symlink_to("loop")
        Path("nowhere").symlink_to("own.npz/absent")
        assert _run(*FIT, "model")[0] == 0
        commands = (
            (*FIT,),
            ("predict", "model", "own.npz", "--out"),
            ("evaluate",),
            ("train", "digits-mmcva-50", "--device", "cpu", "--run-dir"),
        )
        for kind, path in BAD.items():
            given = () if kind == "a file" else (("fit",),)  # it is the data
            for command in (*commands, *given, ("data", "check", "mnist", "--data-dir")):
                yield f"{kind}: {command[0]}", _refused(*_run(*command, path))
        for kind, path in GOOD.items():
            yield f"{kind}: fit", _answered(*_run(*FIT, path))
            yield f"{kind}: predict", _answered(*_run("predict", path, "own.npz", "--out", "p.csv", "--json"))
        for name, number in SYSTEMS.items():
            with failing(1, number=number, lasting=True):
                found = _run(*FIT, f"run-{name}")
            yield f"{name}: fit", _refused(*found)
            with failing(1, number=number, lasting=True):
                found = _run("predict", "model", "own.npz", "--out", f"{name}.csv")
            yield f"{name}: predict", _refused(*found)
        for name in NO_LOCKS if fcntl is not None else ():
            with mock.patch.object(fcntl, "flock", side_effect=OSError(getattr(errno, name), name)):
                yield f"no locks ({name}): fit", _answered(*_run(*FIT, f"unlocked-{name}"))
        for kind in ("link", "folder"):
            Path(f"claim-{kind}").mkdir()
            claim = Path(f"claim-{kind}", ".claim")
            claim.symlink_to(Path("own.npz").resolve()) if kind == "link" else claim.mkdir()
            before = Path("own.npz").read_bytes()
            outcome = _refused(*_run(*FIT, f"claim-{kind}"))
            yield f"a {kind} in place of the claim", outcome if Path("own.npz").read_bytes() == before else "lost"


def _run(*words: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code and standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = 0
    with mock.patch.object(sys, "argv", ["mmdgm", *words]), contextlib.redirect_stdout(out):
        with contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as ended:
                code = ended.code or 0
            except BaseException as error:  # a traceback
                return 70, f"{type(error).__name__}: {error}"
        err.flush()
    assert isinstance(err.buffer, io.BytesIO)
    return int(str(code)), err.buffer.getvalue().decode()


def _refused(code: int, err: str) -> str:
    if code != 2:
        return f"exit code {code}: {err.strip()[-200:]}"
    return SURVIVED if len(err.strip().splitlines()) == 1 else f"several lines: {err.strip()[-300:]}"


def _answered(code: int, err: str) -> str:
    return SURVIVED if code == 0 else f"exit code {code}: {err.strip()[-200:]}"

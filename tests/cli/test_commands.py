"""What all commands have in common: a page with an example, a line in the list, one line for a mistake."""

import io
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from rich.console import Console

from mmdgm import __version__, cli
from mmdgm.cli import common, lazy
from mmdgm.errors import TrainingStopped

PAGES = [
    *([name] for name in lazy.COMMANDS if name != "data"),
    ["data", "list"],
    ["data", "download"],
    ["data", "check"],
]


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_help_has_an_example_of_this_command(mmdgm, words):
    code, out, err = mmdgm(*words, "--help")
    text = " ".join(out.replace("│", " ").split())
    assert (code, err) == (0, "")
    assert f"Usage: mmdgm {' '.join(words)}" in text
    assert f"Example: mmdgm {' '.join(words)}" in text
    assert "--json" in text


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_examples_hold_options_that_there_are(mmdgm, words):
    text = " ".join(mmdgm(*words, "--help")[1].replace("│", " ").split())
    example, _, rest = text.partition("Example: ")[2].partition(" ╭")
    assert rest
    for option in re.findall(r"--[\w-]+", example):
        assert option in rest


@pytest.mark.parametrize("command", lazy.COMMANDS)
def test_the_list_of_commands_says_what_their_own_pages_say(command):
    """In fewer words, perhaps, but in the same order."""
    first = " ".join(lazy.load(command).help.partition("\n\n")[0].split())
    assert lazy.COMMANDS[command].line.split()[:2] == first.split()[:2]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["data", "list"]], ids=" ".join)
def test_answers_that_need_no_torch_do_not_wait_for_it(words):
    code = f"import sys; sys.argv = {['mmdgm', *words]}; from mmdgm.cli import main\ntry: main()\n"
    code += "except SystemExit: pass\nprint('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout
    assert done.stderr == "False\n"


def test_version_and_help_without_a_command(mmdgm):
    assert mmdgm("--version")[:2] == (0, f"{__version__}\n")
    code, out, _ = mmdgm()
    assert code == 0
    assert all(re.search(rf"│ {command} ", out) for command in lazy.COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "No such command 'trian'"),
        (["bench"], "No such command 'bench'"),
        (["list", "mnist"], "there is no preset"),
        (["reproduce", "table9"], "there is no 'table9' to reproduce; there are ablations"),
        (["data"], "Missing command"),
        (["data", "fetch"], "No such command 'fetch'"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line_and_exit_code_2(refused, words, said):
    assert said in refused(*words)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (TrainingStopped("stopped at step 5"), 1, "mmdgm: stopped at step 5\n"),
        (KeyboardInterrupt(), 130, "mmdgm: interrupted\n"),
    ],
)
def test_how_training_ends_is_the_exit_code(mmdgm, monkeypatch, error, code, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert mmdgm("train") == (code, "", line)


def test_notes_and_paths_hold_no_control_characters(monkeypatch):
    files = [Console(file=io.StringIO()) for _ in range(2)]
    monkeypatch.setattr(common, "err", files[0])
    monkeypatch.setattr(common, "out", files[1])
    common.say(["a\x1b[31mb", "c\rd"])
    with common.warnings_as_lines():
        warnings.warn("one\ntwo \x07", UserWarning, stacklevel=1)
    common.report_files([Path("e\x07f")], as_json=False)
    assert files[0].file.getvalue() == "a\\x1b[31mb\nc\\rd\none\ntwo \\x07\n"
    assert files[1].file.getvalue() == "e\\x07f\n"

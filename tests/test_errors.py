"""Messages of one line that a terminal shows and does not obey."""

import pytest

from mmdgm.errors import InputError, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Ünïcode → 图", "plain Ünïcode → 图"),
        ("\x1b]0;owned\x07\x1b[2J", "\\x1b]0;owned\\x07\\x1b[2J"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\x9b31m\x7f\u202egpj.exe", "\\x9b31m\\x7f\\u202egpj.exe"),
    ],
)
def test_control_characters_become_escapes(text, shown):
    assert printable(text) == shown
    assert str(InputError(f"column {text}")) == f"column {shown}"

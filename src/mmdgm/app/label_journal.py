"""The journal of a labeling: a file with one JSON object per line, which is only ever appended to.

`append` returns when the lines are on the disk. A process that is killed while it writes leaves at most one torn line
at the end, which the next start drops. One process holds a journal at a time.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from mmdgm.errors import InputError
from mmdgm.files import NO_LINK, locked, sync_folder

Line = dict[str, Any]


class Journal:
    """An open journal. `lines`: what it holds; `notes`: what the user should know about it."""

    def __init__(self, path: Path):
        self.path, self.notes = path, list[str]()
        self._size = 0  # of the complete lines, in bytes
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None
        try:
            if not locked(self._file):
                raise InputError(
                    f"{path}: another `mmdgm app` writes these labels; use its page, or give other labels by --labels"
                )
            self.lines = self._read()
            sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process have the journal."""
        with suppress(OSError):
            os.close(self._file)

    def append(self, lines: list[Line], *, lasting: bool = True) -> None:
        """Add lines; `lasting`: wait until they are on the disk. If that fails, the journal is as it was."""
        content = memoryview(b"".join(json.dumps(line, ensure_ascii=True).encode() + b"\n" for line in lines))
        end = self._size
        try:
            os.ftruncate(self._file, end)  # what a failed call may have left
            os.lseek(self._file, end, os.SEEK_SET)
            while content:
                written = os.write(self._file, content)
                content, end = content[written:], end + written
            if lasting:
                os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from None
        self._size = end
        self.lines += lines

    def _read(self) -> list[Line]:
        try:
            content = b""
            while part := os.read(self._file, 2**20):
                content += part
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from None
        whole, end, torn = content.rpartition(b"\n")
        lines = []
        for number, text in enumerate(whole.split(b"\n") if end else [], 1):
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            if not isinstance(line, dict):
                raise InputError(f"{self.path}: line {number} is damaged; delete this line to go on with the others")
            lines.append(line)
        self._size = len(whole) + len(end)
        if torn:
            self.notes.append(f"{self.path}: its last line was not complete and is dropped")
        return lines

"""Files of a data set are checked by hash: the official one, or the one kept at their first reading."""

import gzip
import hashlib

import pytest

from mmdgm.data.datasets import sums
from mmdgm.data.datasets.sources import Source
from mmdgm.errors import InputError

CONTENT = bytes(range(256)) * 4


def packed(content, *, time):
    return gzip.compress(content, mtime=time)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of a data set that has a gzip file and a plain file, and the official files' sums."""
    official = {"rows.gz": packed(CONTENT, time=1), "labels.mat": CONTENT}
    sources = tuple(
        Source(name, f"https://example.org/{name}", len(data), hashlib.sha256(data).hexdigest())
        for name, data in official.items()
    )
    monkeypatch.setattr(sums, "sources_of", lambda name, *, extra: sources)
    for name, data in official.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_official_files_pass_and_nothing_is_kept(folder):
    sums.check_sums(folder)
    assert not (folder / sums.SUMS).exists()


def test_a_plain_file_of_the_official_length_with_another_hash_is_damaged(folder):
    (folder / "labels.mat").write_bytes(b"\1" + CONTENT[1:])
    with pytest.raises(InputError, match="has the size of the official file, but is damaged"):
        sums.check_sums(folder)


def test_a_gzip_file_packed_again_passes_also_with_the_official_length(folder):
    again = packed(CONTENT, time=2)
    assert len(again) == (folder / "rows.gz").stat().st_size
    (folder / "rows.gz").write_bytes(again)
    sums.check_sums(folder)
    assert sums.read_sums(folder) == {"rows.gz": hashlib.sha256(again).hexdigest()}
    sums.check_sums(folder)


def test_an_unpacked_file_that_changes_after_its_first_reading_is_refused(folder):
    (folder / "rows.gz").unlink()
    (folder / "rows").write_bytes(CONTENT)
    sums.check_sums(folder)
    (folder / "rows").write_bytes(b"\1" + CONTENT[1:])
    with pytest.raises(InputError, match="has changed since it was first read"):
        sums.check_sums(folder)
    (folder / sums.SUMS).unlink()
    sums.check_sums(folder)

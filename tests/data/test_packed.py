"""Small files that unpack to gigabytes, and headers that promise terabytes, are refused before the memory is full."""

import gzip
import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from mmdgm.data import packed
from mmdgm.data.datasets.idx import read_idx
from mmdgm.data.npz import read_npz
from mmdgm.data.table_files import read_sheet
from mmdgm.errors import InputError

MB = 2**20


@pytest.fixture(name="little_memory")
def make_little_memory():
    """Fail if the test takes more than 200 MB."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * MB


def bomb(path, megabytes, first=b""):
    with gzip.open(path, "wb") as file:
        file.write(first)
        for _ in range(megabytes):
            file.write(bytes(MB))
    assert path.stat().st_size < MB
    return path


def test_an_idx_file_is_read_as_far_as_its_header_promises(tmp_path, little_memory):
    path = bomb(tmp_path / "x.gz", 500, bytes([0, 0, 8, 1, 0, 0, 0, 10]))
    with pytest.raises(InputError, match="at least 19 bytes instead of 18"):
        read_idx(path, (10,))


def test_a_packed_table_of_nothing_is_refused(tmp_path, monkeypatch, little_memory):
    monkeypatch.setattr(packed, "SMALL", 20 * MB)
    with pytest.raises(InputError, match="unpack to more than"):
        read_sheet(bomb(tmp_path / "x.csv.gz", 500, b"a,b\n"))


def test_a_packed_table_of_text_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "SMALL", 1000)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"".join(b"%d,x\n" % i for i in range(1000))))
    assert read_sheet(tmp_path / "x.csv.gz").column("a") == [str(i) for i in range(1000)]


def npz(path, header, content):
    """An npz file with one array x of this header and these bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, header)
        archive.writestr("x.npy", stream.getvalue() + content)
    return path


@pytest.mark.parametrize(
    ("header", "content"),
    [
        ({"descr": "<f8", "fortran_order": False, "shape": (4 * 10**12,)}, bytes(80)),
        ({"descr": "<f8", "fortran_order": False, "shape": (2**62, 2**62)}, bytes(80)),
        ({"descr": "<f8", "fortran_order": False, "shape": (11,)}, bytes(80)),
        ({"descr": "<f8", "fortran_order": False, "shape": (9,)}, bytes(80)),
        ({"descr": "<U99999999", "fortran_order": False, "shape": (9,)}, bytes(80)),
        ({"descr": "<f8", "fortran_order": False, "shape": (-10,)}, bytes(80)),
    ],
)
def test_an_npz_file_with_another_size_than_its_header_says_is_refused(tmp_path, little_memory, header, content):
    with pytest.raises(InputError, match=r"x.npz: (x should be [-0-9,]+ bytes|cannot be read)"):
        read_npz(npz(tmp_path / "x.npz", header, content))


def test_an_npz_file_that_unpacks_to_nothing_but_zeros_is_refused(tmp_path, monkeypatch, little_memory):
    monkeypatch.setattr(packed, "SMALL", 10 * MB)
    header = {"descr": "|u1", "fortran_order": False, "shape": (20 * MB,)}
    with pytest.raises(InputError, match="unpack to more than"):
        read_npz(npz(tmp_path / "x.npz", header, bytes(20 * MB)))

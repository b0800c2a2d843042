"""What result.json says of a run's data files."""

import hashlib

from mmdgm.data.datasets.sources import SVHN
from mmdgm.experiments.provenance import data_files


def test_data_files_have_their_hashes_and_are_compared_with_the_official_ones(tmp_path, monkeypatch):
    folder = tmp_path / "svhn"
    folder.mkdir()
    (folder / "train_32x32.mat").write_bytes(b"rebuilt")
    (folder / "test_32x32.mat").write_bytes(b"official")
    digest = hashlib.sha256(b"official").hexdigest()
    official = tuple(type(s)(s.name, s.url, s.length, digest) for s in SVHN[:2])
    monkeypatch.setattr("mmdgm.experiments.provenance.sources_of", lambda name, extra: official)
    assert data_files("svhn", tmp_path) == {
        "train_32x32.mat": {"sha256": hashlib.sha256(b"rebuilt").hexdigest(), "official": False},
        "test_32x32.mat": {"sha256": digest, "official": True},
    }


def test_a_data_set_without_files_has_none(tmp_path):
    assert data_files("digits", tmp_path) == {}

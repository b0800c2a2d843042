"""What result.json says of a run's software and data files."""

import hashlib
import subprocess

from mmdgm.data.datasets.sources import SVHN
from mmdgm.experiments.provenance import data_files, source_tree


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


def test_the_source_tree_has_the_hash_that_git_gives_it(tmp_path):
    names = ("a.py", "a/b.py", "a.b/c.py", "a/sub/é.py", "py.typed")
    for name in names:
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name = {name!r}\n")

    def git(*words):
        command = ["git", "-c", "core.autocrlf=false", *words]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("add", ".")
    expected = git("rev-parse", f"{git('write-tree')}:package")
    cache = tmp_path / "package" / "__pycache__"
    cache.mkdir()
    (cache / "a.pyc").write_bytes(b"compiled")
    assert source_tree(tmp_path / "package") == expected

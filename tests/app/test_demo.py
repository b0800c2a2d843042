"""The demo: trained once into the cache folder, then only found there."""

from mmdgm import load
from mmdgm.app import demo


def test_the_demo_is_trained_once(tmp_path, monkeypatch, quiet):
    monkeypatch.setenv("MMDGM_DATA", str(tmp_path))
    monkeypatch.setattr(demo, "CHANGES", [*demo.CHANGES, "epochs=1"])
    path = demo.demo_run(quiet, device="cpu")
    assert path.parent == tmp_path
    assert load(path).codec_.size == (8, 8)
    assert load(path).codec_.gaussian
    monkeypatch.setattr(demo, "train_runs", lambda *_, **__: 1 / 0)
    assert demo.demo_run(quiet, device="cpu") == path

"""`make faults`: a short version of its attacks, and what its table says of a loss."""

import itertools
import sys
import types

import pytest

from benchmarks.faults import SURVIVED, __main__, damage, kills, paths


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "share", "number"),
    [(damage, 0.02, 300), (kills, 0.03, 60), (paths, 1.0, 40)],
    ids=lambda x: str(x)[8:32],
)
def test_a_short_version_survives(tmp_path, module, share, number):
    outcomes = list(itertools.islice(module.attacks(tmp_path, share), 400 if module is damage else number + 5))
    assert len(outcomes) >= number
    assert [each for each in outcomes if each[1] != SURVIVED] == []


@pytest.mark.parametrize(("outcomes", "code"), [((SURVIVED,), 0), ((SURVIVED, "other weights"), 1)])
def test_a_loss_is_counted_and_named(monkeypatch, capsys, outcomes, code):
    module = types.SimpleNamespace(
        FAULT="storm", __name__="storms", attacks=lambda folder, share: (("a wave", outcome) for outcome in outcomes)
    )
    monkeypatch.setattr(__main__, "MODULES", (module,))
    monkeypatch.setattr(sys, "argv", ["faults"])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == code
    out = capsys.readouterr().out
    assert out.splitlines()[-1].split()[:4] == ["storm", str(len(outcomes)), "1", str(code)]
    assert ("a wave: other weights" in out) == bool(code)

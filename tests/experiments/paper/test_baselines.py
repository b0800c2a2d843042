"""Other imputers against their literal forms."""

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf
from sklearn.impute import KNNImputer

from mmdgm.data.masks import rand_drop, rect
from mmdgm.experiments.paper.baselines import IMPUTERS, NearestImages, OneGaussian
from mmdgm.experiments.paper.patterns import mask_of
from mmdgm.experiments.paper.sheets import BASELINES

RNG = np.random.default_rng(0)
TRAIN = RNG.random((50, 1, 4, 4), dtype=np.float32)
TEST = RNG.random((8, 1, 4, 4), dtype=np.float32)
HOLES = {"rect": rect(TEST.shape, 2, 2), "random": rand_drop(TEST.shape, 0.4, seed=0)}


@pytest.mark.parametrize("missing", HOLES.values(), ids=HOLES)
def test_nearest_images_are_those_of_scikit_learn(missing):
    filled = NearestImages(TRAIN, k=3)(np.where(missing, np.nan, TEST), missing)
    imputer = KNNImputer(n_neighbors=3).fit(TRAIN.reshape(50, -1))
    expected = imputer.transform(np.where(missing, np.nan, TEST).reshape(8, -1))
    np.testing.assert_allclose(filled.reshape(8, -1), expected, rtol=1e-5)


@pytest.mark.parametrize("missing", HOLES.values(), ids=HOLES)
def test_one_gaussian_is_the_conditional_mean(missing):
    filled = OneGaussian(TRAIN)(np.where(missing, np.nan, TEST), missing).reshape(8, -1)
    fitted = LedoitWolf().fit(TRAIN.reshape(50, -1).astype(float))
    mean, covariance = fitted.location_, fitted.covariance_
    for row, x, hole in zip(filled, TEST.reshape(8, -1), missing.reshape(8, -1), strict=True):
        weights = np.linalg.solve(covariance[np.ix_(~hole, ~hole)], x[~hole] - mean[~hole])
        expected = mean[hole] + covariance[np.ix_(hole, ~hole)] @ weights
        np.testing.assert_allclose(row[hole], expected.clip(0, 1), rtol=1e-5)
        np.testing.assert_array_equal(row[~hole], x[~hole])


def test_other_imputers_go_by_one_name():
    assert IMPUTERS.keys() == BASELINES.keys()


def test_patterns_go_by_their_names():
    assert mask_of("Rect 12", (3, 1, 28, 28)).sum() == 3 * 144
    drop = mask_of("Rand-Drop 0.8", (100, 1, 28, 28))
    assert drop.mean() == pytest.approx(0.8, abs=0.01)
    assert np.array_equal(drop, mask_of("Rand-Drop 0.8", (100, 1, 28, 28)))

"""Play with images: answers are those of the estimator's methods, and questions are checked."""

import base64

import numpy as np
import pytest
from sklearn.datasets import load_digits

from mmdgm import MMVAClassifier
from mmdgm.app.image_play import DRAWS, ROUNDS, ImagePlay, image_questions
from mmdgm.errors import InputError


def text(array):
    return base64.b64encode(np.asarray(array, np.uint8).tobytes()).decode()


def picture(answer):
    return np.frombuffer(base64.b64decode(answer), np.uint8).reshape(8, 8)


@pytest.fixture(name="play", scope="module")
def make_play(on_images):
    return ImagePlay(on_images)


@pytest.fixture(name="digit", scope="module")
def make_digit():
    return np.round(load_digits().images[3] * 255 / 16).astype(np.uint8)


def test_a_whole_image_is_scored_as_by_the_estimator_and_rebuilt(play, digit):
    answer = play.look({"pixels": text(digit), "missing": text(np.zeros(64))})
    x = digit[None] * (16 / 255)
    scores = play.estimator.class_scores(x)[0]
    np.testing.assert_allclose(answer["scores"], scores, atol=1e-4)
    assert answer["prediction"] == scores.argmax()
    assert answer["low"] == answer["high"] == answer["scores"]
    np.testing.assert_allclose(picture(answer["rebuilt"]), play.estimator.reconstruct(x)[0] * 255 / 16, atol=1)


def test_a_missing_part_is_completed_by_rounds_draws_and_their_mean(play, digit):
    missing = np.zeros((8, 8), np.uint8)
    missing[2:5] = 1
    answer = play.look({"pixels": text(digit), "missing": text(missing)})
    x = np.where(missing, np.nan, digit * (16 / 255))[None]
    rounds = play.estimator.impute_rounds(x, ROUNDS, DRAWS)
    assert (len(answer["rounds"]), len(answer["draws"])) == (ROUNDS + 1, DRAWS)
    for i in (0, 1, ROUNDS):
        np.testing.assert_allclose(picture(answer["rounds"][i]), rounds[i, 0, 0] * 255 / 16, atol=1)
    for i in range(DRAWS):
        np.testing.assert_allclose(picture(answer["draws"][i]), rounds[-1, i, 0] * 255 / 16, atol=1)
    mean = rounds[ROUNDS // 2 + 1 :].mean(axis=(0, 1))[0]
    np.testing.assert_allclose(picture(answer["mean"]), mean * 255 / 16, atol=1)
    np.testing.assert_array_equal(picture(answer["mean"])[missing == 0], digit[missing == 0])
    of_draws = play.estimator.class_scores(np.concatenate([mean[None], rounds[-1, :, 0]]))
    np.testing.assert_allclose(answer["scores"], of_draws[0], atol=1e-3)
    np.testing.assert_allclose(answer["low"], of_draws.min(axis=0), atol=1e-3)
    np.testing.assert_allclose(answer["high"], of_draws.max(axis=0), atol=1e-3)


def test_the_style_of_a_drawing_is_its_code_and_is_decoded_with_every_class(play, digit):
    code = play.style({"pixels": text(digit), "missing": text(np.zeros(64))})["code"]
    np.testing.assert_allclose(code, play.estimator.transform(digit[None] * (16 / 255))[0], atol=1e-4)
    images = play.generate({"code": code})["images"]
    expected = play.estimator.generate(np.repeat([code], 10, axis=0), range(10))
    np.testing.assert_allclose([picture(image) for image in images], expected * 255 / 16, atol=1)


def test_what_a_model_cannot_do_is_not_offered(play, digit):
    assert {play.about()[key] for key in ("draws", "completes", "generates", "by_class")} == {True}
    X = np.random.default_rng(0).random((20, 8, 8))
    one = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=2).fit(X, np.arange(20) % 2)
    about = ImagePlay(one).about()
    assert (about["by_class"], about["generates"], len(about["directions"])) == (False, True, 2)
    assert len(ImagePlay(one).generate({"code": [0, 0]})["images"]) == 1


def test_examples_are_rows_of_the_data_or_generated(play, digit):
    assert picture(ImagePlay(play.estimator, digit[None] * (16 / 255)).example()["pixels"]).tolist() == digit.tolist()
    first, second = play.example()["pixels"], play.example()["pixels"]
    assert first != second


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("look", {}),
        ("look", {"pixels": text(np.zeros(63)), "missing": text(np.zeros(64))}),
        ("look", {"pixels": text(np.zeros(64)), "missing": "?" * 88}),
        ("look", {"pixels": [0] * 64, "missing": text(np.zeros(64))}),
        ("style", {"pixels": text(np.zeros(64)), "missing": None}),
        ("generate", {}),
        ("generate", {"code": [0, 0, 0]}),
        ("generate", {"code": ["x"] * 4}),
        ("generate", {"code": [float("inf")] * 4}),
        ("generate", {"code": [[0] * 4]}),
    ],
)
def test_wrong_questions_are_one_line(play, question, asked):
    with pytest.raises(InputError) as caught:
        image_questions(play)[question](asked)
    assert len(str(caught.value).splitlines()) == 1

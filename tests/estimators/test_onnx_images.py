"""Images in ONNX: raw pixels give what `predict` gives; missing pixels are filled by the same rounds."""

import dataclasses

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn.datasets import load_digits

from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.data.codecs import ImageCodec
from mmdgm.estimators import onnx_file, onnx_images
from mmdgm.inference.imputation import impute

DIGITS = load_digits()
IMAGES, TARGET = DIGITS.images[:300].astype(np.float32), DIGITS.target[:300]
SHORT = {"max_epochs": 1, "z": 4, "random_state": 0, "device": "cpu"}
PLAIN = {"augmentation": None, "propagate_labels": False}


def session_of(content):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def close(scores, expected):
    np.testing.assert_allclose(scores, expected, atol=2e-5 * np.abs(expected).max())


def with_holes(images):
    holes = images.copy()
    holes[:, 2:5, 1:4] = np.nan
    return holes


def common_rounds(monkeypatch):
    """Give all rows of `impute` the noise of the file."""

    def noise(x, size, *, seed):
        return np.tile(onnx_images.common_noise(4).reshape(1, size), (len(x), 1))

    monkeypatch.setattr("mmdgm.inference.imputation.row_noise", noise)


@pytest.fixture(scope="module", name="on_floats")
def fit_on_floats():
    model = MMCVAClassifier(**SHORT, **PLAIN).fit(IMAGES, TARGET)
    return model, onnx_file.onnx_content(model)


def test_whole_images_of_floats(on_floats):
    model, content = on_floats
    session = session_of(content)
    (x,) = session.get_inputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["rows", 8, 8])
    for images in (IMAGES, IMAGES[:1], 1.2 * IMAGES[:9] - 2):
        label, scores = session.run(None, {"x": images})
        assert label.dtype == np.int64
        np.testing.assert_array_equal(label, model.predict(images))
        close(scores, model.class_scores(images))


def test_missing_pixels_are_filled_by_the_rounds_of_predict(on_floats, monkeypatch):
    model, content = on_floats
    session, holes = session_of(content), with_holes(IMAGES)
    label, scores = session.run(None, {"x": holes})
    spread = np.abs(model.class_scores(holes, random_state=1) - model.class_scores(holes)).mean()
    assert np.abs(scores - model.class_scores(holes)).mean() < 1.5 * spread  # other noise, as by another seed
    assert (label == model.predict(holes)).mean() > 0.95
    common_rounds(monkeypatch)
    close(scores, model.class_scores(holes))
    np.testing.assert_array_equal(label, model.predict(holes))
    close(session.run(None, {"x": holes[:1]})[1], scores[:1])
    mixed = np.concatenate([holes[:3], IMAGES[:3]])
    close(session.run(None, {"x": mixed})[1], model.class_scores(mixed))


def test_images_of_bytes_with_text_classes():
    images, names = (15 * IMAGES).astype(np.uint8)[..., None].repeat(3, axis=-1), np.array(list("abcdefghiß"))[TARGET]
    model = MMVAClassifier(**SHORT).fit(images, names)
    content = onnx_file.onnx_content(model)
    session = session_of(content)
    (x,) = session.get_inputs()
    assert (x.type, x.shape) == ("tensor(uint8)", ["rows", 8, 8, 3])
    for rows in (images, images[:1]):
        label, scores = session.run(None, {"x": rows})
        np.testing.assert_array_equal(label, model.predict(rows))
        close(scores, model.class_scores(rows))
    assert "no pixel may be missing" in onnx_file.metadata_of(model)["input"]


def test_a_border_counts_as_missing_also_in_bytes(monkeypatch):
    images = (15 * IMAGES[:, :7, :6]).astype(np.uint8)
    model = MMVAClassifier(**SHORT).fit(images, TARGET)
    session = session_of(onnx_file.onnx_content(model))
    label, scores = session.run(None, {"x": images})
    common_rounds(monkeypatch)
    close(scores, model.class_scores(images))
    np.testing.assert_array_equal(label, model.predict(images))


@pytest.mark.parametrize("options", [{}, {"gaussian": True}, {"normalised": True}])
def test_inputs_of_the_network_are_those_of_the_codec(options):
    images = 5 * np.random.default_rng(0).normal(size=(20, 9, 12, 2)).astype(np.float32) - 3
    codec = ImageCodec.learn(images[:10], **options)
    holes = images.copy()
    if not codec.normalised:
        holes[3:, 2] = np.nan
    start = torch.arange(2 * 12 * 12.0).reshape(codec.shape)
    begin, hole = onnx_images._Pixels(codec, start)(torch.from_numpy(holes))
    expected = codec.encode(holes)
    np.testing.assert_array_equal(hole, np.isnan(expected))
    filled = np.where(np.isnan(expected), start, expected)
    np.testing.assert_allclose(begin, filled, atol=1e-5)


def test_contrast_normalisation_is_in_the_file(on_floats):
    model = on_floats[0]
    whole = model.codec_
    model.codec_ = dataclasses.replace(whole, normalised=True)
    try:
        assert not onnx_file.takes_holes(model)
        scores = session_of(onnx_file.onnx_content(model)).run(["scores"], {"x": IMAGES[:50]})[0]
        close(scores, model.class_scores(IMAGES[:50]))
    finally:
        model.codec_ = whole


def test_without_its_generative_part_a_model_takes_whole_images_alone(on_floats, monkeypatch):
    model = on_floats[0]
    monkeypatch.setattr(type(model.model_), "generates", property(lambda _: False))
    session = session_of(onnx_file.onnx_content(model))
    close(session.run(["scores"], {"x": IMAGES[:5]})[0], model.class_scores(IMAGES[:5]))
    assert np.isnan(session.run(["scores"], {"x": with_holes(IMAGES[:2])})[0]).all()


def test_the_number_of_rounds_is_that_of_predict(on_floats, monkeypatch):
    common_rounds(monkeypatch)
    model, x = on_floats[0], on_floats[0].codec_.encode(with_holes(IMAGES[:4]))
    filled = impute(model.model_, x, rounds=onnx_images.ROUNDS, start=model.fill_)
    np.testing.assert_allclose(model.inputs(with_holes(IMAGES[:4]), filled=True), filled, atol=1e-6)

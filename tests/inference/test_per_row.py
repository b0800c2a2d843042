"""Noise that is each row's own, and chunks of one size."""

import threading

import numpy as np
import torch
from scipy.stats import kstest

from mmdgm.inference.per_row import chunk_size, few_rows, in_chunks, inference, row_noise


def rows(n, seed=0):
    return np.random.default_rng(seed).random((n, 1, 4, 4), dtype=np.float32)


def test_a_row_s_noise_is_a_function_of_its_values_and_the_seed():
    x = rows(7)
    noise = row_noise(x, 11, seed=3)
    assert (noise.shape, noise.dtype) == ((7, 11), np.float32)
    np.testing.assert_array_equal(row_noise(x[[4, 1]], 11, seed=3), noise[[4, 1]])
    np.testing.assert_array_equal(row_noise(x[:, :, ::-1][:, :, ::-1], 11, seed=3), noise)  # however it lies
    np.testing.assert_array_equal(row_noise(x, 5, seed=3), noise[:, :5])
    assert not np.isin(row_noise(x, 11, seed=4), noise).any()
    changed = x.copy()
    changed[0, 0, 0, 0] += 1e-6
    assert not np.isin(row_noise(changed, 11, seed=3)[0], noise).any()
    np.testing.assert_array_equal(row_noise(changed, 11, seed=3)[1:], noise[1:])


def test_noise_is_standard_normal_within_rows_and_across_them():
    noise = row_noise(rows(400), 50, seed=0)
    assert kstest(noise.ravel(), "norm").pvalue > 0.01
    assert kstest(noise[:, 0], "norm").pvalue > 0.01
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.03


def test_rows_go_in_chunks_of_one_size_the_last_one_filled_up():
    sizes = []

    def double(x, y):
        sizes.append((len(x), len(y)))
        return 2 * x + y

    x, y = np.arange(7.0), np.ones(7)
    found = in_chunks(torch.nn.Linear(1, 1), double, x, y, size=3)
    np.testing.assert_array_equal(found, 2 * x + 1)
    assert sizes == [(3, 3)] * 3


def test_inference_leaves_mode_gradients_and_random_state_as_they_were():
    model = torch.nn.Linear(2, 1).train()
    state = torch.get_rng_state()
    draws = []
    for _ in range(2):
        with inference(model, seed=5) as device:
            assert (device.type, model.training, torch.is_grad_enabled()) == ("cpu", False, False)
            draws.append(torch.rand(3))
    assert torch.equal(*draws)
    assert model.training
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_page_s_few_rows_go_in_small_chunks_in_its_own_thread_alone():
    model, seen = torch.nn.Linear(1, 1), []
    with few_rows():
        assert chunk_size(model, (1, 28, 28)) == 8
        other = threading.Thread(target=lambda: seen.append(chunk_size(model, (1, 28, 28))))
        other.start()
        other.join()
    assert seen == [64]
    assert chunk_size(model, (1, 28, 28)) == 64

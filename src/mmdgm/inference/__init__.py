"""Inference with a trained model: scores, imputation, sampling, evaluation."""

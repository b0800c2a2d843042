"""From weights to answers: scores, imputation, sampling, evaluation."""

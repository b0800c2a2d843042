"""Which rows to label: those whose labels say most about the other rows.

The labels are seen as a Gaussian field on the graph, with the covariance C = (I − κ S)^(−1). The M leading
eigenvectors u and eigenvalues λ of S approximate it:

    C ≈ Z Zᵀ    Z_im = u_im / √(1 − κ λ_m)    σ² = mean of C_ii: the variance of a label's noise

The next row to label is (Ma, Garnett and Schneider 2013, Σ-optimality for active learning on Gaussian random fields)

    argmax_i  (Σ_j w_j C_ij)² / (σ² + C_ii)    w_j: doubt about row j

It represents many doubtful rows, and its own value is not known yet. Then C is conditioned on its label, which needs
no class:  C ← C − C_·i C_i· / (σ² + C_ii).  So the rows come in an order in which every beginning is a good choice.
Without labels, w is 1 for all rows. With labels, it is DOUBT + 1 − (P₁ − P₂), see `propagate`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from mmdgm.propagation.propagate import Labels, Values, class_chances, class_strength, lead_of

KAPPA = 0.99
EIGENVECTORS = 150
PRECISION = 1e-3  # of eigenvalues
DOUBT = 0.1  # about rows whose class is certain


def suggest_rows(graph: csr_matrix, n: int, y: Labels) -> list[int]:
    """At most n rows of a graph to label next, in order, given the labels y so far (−1: none)."""
    return Field(leading_part(graph), doubt(graph, y), np.flatnonzero(y >= 0)).best_rows(n, y < 0)


def doubt(graph: csr_matrix, y: Labels) -> Values:
    """w `(n,)`: how doubtful each row's class is. Labeled rows have no doubt."""
    if not (y >= 0).any():
        return np.ones(len(y))
    chances = class_chances(class_strength(graph, y, kappa=KAPPA), y)
    return np.where(y < 0, DOUBT + 1 - lead_of(chances), 0)


class Field:
    """The field C = Z A Zᵀ, conditioned on the labels of some rows.

    A = (I + Z_kᵀ Z_k/σ²)^(−1), where Z_k are the labeled rows of Z.
    """

    def __init__(self, z: Values, weights: Values, labeled: Any = ()):
        self.z = z
        self.noise = float(np.square(z).sum(axis=1).mean())
        known = z[np.asarray(labeled, int)]
        self.a = np.linalg.inv(np.eye(z.shape[1]) + known.T @ known / self.noise)
        za = z @ self.a
        self.variance: Values = (za * z).sum(axis=1).clip(0)  # C_ii
        self.sums: Values = za @ (weights @ z)  # Σ_j w_j C_ij

    def best_rows(self, n: int, free: NDArray[np.bool_]) -> list[int]:
        """At most n of the free rows, in order; the field is conditioned on each of them."""
        free, suggested = free.copy(), list[int]()
        while free.any() and len(suggested) < n:
            row = int(np.where(free, self.gains(), -1).argmax())
            self.condition(row)
            free[row] = False
            suggested.append(row)
        return suggested

    def gains(self) -> Values:
        """(Σ_j w_j C_ij)² / (σ² + C_ii) of each row, `(n,)`."""
        gains: Values = self.sums**2 / (self.noise + self.variance)
        return gains

    def condition(self, row: int) -> None:
        """Condition the field on the label of a row."""
        az = self.a @ self.z[row]
        column, total = self.z @ az, self.noise + self.variance[row]
        self.a -= np.outer(az, az) / total
        self.sums = self.sums - column * self.sums[row] / total
        self.variance = (self.variance - column**2 / total).clip(0)


def leading_part(graph: csr_matrix) -> Values:
    """Z `(n, M)`, whose product Z Zᵀ approximates C."""
    n = graph.shape[0]
    if n <= 2 * EIGENVECTORS:
        values, vectors = np.linalg.eigh(graph.toarray())
        values, vectors = values[-EIGENVECTORS:], vectors[:, -EIGENVECTORS:]
    else:
        try:
            values, vectors = eigsh(graph, k=EIGENVECTORS, which="LA", v0=np.ones(n), tol=PRECISION)
        except ArpackNoConvergence as error:  # those that were found do
            values, vectors = error.eigenvalues, error.eigenvectors
    part: Values = vectors / np.sqrt(1 - KAPPA * values.clip(max=1))
    return part

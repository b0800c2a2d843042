"""Leave-one-out: the chances of labeled rows' classes, given all labels but their own."""

import numpy as np
from scipy.sparse import csr_matrix, eye
from scipy.sparse.linalg import cg

from mmdgm.data import deadline
from mmdgm.propagation.propagate import Labels, Values, class_likelihood


def leave_one_out(graph: csr_matrix, y: Labels, *, kappa: float) -> Values:
    """P `(labeled rows, K)` of each labeled row's class, in order, propagated from the other labels.

    The chances of rows that no other label reaches are zero. The errors overestimate the error of all rows if the
    labeled rows were suggested, because these represent groups that no other label represents.
    """
    labeled = np.flatnonzero(y >= 0)
    system = (eye(len(y)) - kappa * graph).tocsr()
    unit = np.zeros(len(y))
    among = np.empty((len(labeled), len(labeled)))  # strength of each label at each labeled row
    for i, row in enumerate(labeled):
        deadline.look()
        unit[row] = 1
        among[:, i] = cg(system, unit, rtol=1e-6)[0][labeled].clip(0)
        unit[row] = 0
    np.fill_diagonal(among, 0)
    given = np.eye(int(y.max()) + 1)[y[labeled]]
    counts = given.sum(axis=0) - given  # of the other labels
    strength = among @ given / counts.clip(1)
    joint = counts * class_likelihood(strength) * strength.any(axis=1, keepdims=True)
    chances: Values = joint / joint.sum(axis=1, keepdims=True).clip(1e-300)
    return chances

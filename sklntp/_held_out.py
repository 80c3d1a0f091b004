"""Contexts kept back for early stopping, all copies of one on the same side."""

import math

import numpy as np
from sklearn.utils import check_random_state

from sklntp._collocation import is_single


def hold_out(contexts, labels, mode, fraction, random_state):
    """Split merged contexts into those to train on and those to validate on.

    Parameters
    ----------
    contexts : Contexts
    labels : Labels
    mode : {"single", "last", "context"}
        With "single" one-token sentences are never held out: W_ov is trained on nothing else.
    fraction : float
        Share of the distinct contexts, those of one-token sentences not counted with "single".
    random_state : None, int or RandomState

    Returns
    -------
    training, held_out : tuple of (Contexts, Labels)

    Raises
    ------
    ValueError
        If either side would be empty.
    """
    candidates = np.arange(len(contexts))
    if mode == "single":
        candidates = candidates[~is_single(contexts)]
    n = math.ceil(fraction * len(candidates))
    if not 0 < n < len(candidates):
        kept = " beside the one-token sentences, which are always trained on" * (mode == "single")
        raise ValueError(
            f"early_stopping=True holds out validation_fraction={fraction:g} of the distinct "
            f"contexts, and X has {len(candidates)}{kept}: that leaves none to "
            f"{'train on' if n else 'validate on'}."
        )
    chosen = check_random_state(random_state).permutation(candidates)[:n]
    held = np.zeros(len(contexts), dtype=bool)
    held[chosen] = True
    return tuple(
        (contexts.select(rows), labels.select(rows)) for rows in map(np.flatnonzero, (~held, held))
    )

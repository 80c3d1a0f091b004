"""The formulas that keep a gradient accurate where 1 - p and attention underflow.

Each returns its result relative to exp(a log scale), and none subtracts what nearly cancels.
"""

import numpy as np


def softplus(x):
    """log(1 + exp(x)) without overflow; accurate also where it is as small as exp(x)."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def label_residuals(logits, start, share, outside):
    """Loss and residual at the labels of each row, from the logits of its labels.

    With r the softmax inside the label set and tail the probability outside it, the residual is
    p_v - f_v = (r_v - f_v) - r_v tail. With one label r = f = 1 exactly, so this is -tail: the
    subtraction p - 1 is never formed.

    Parameters
    ----------
    logits : ndarray of shape (n_labels,)
        Logits of the labels, row by row.
    start : ndarray of shape (n_rows,)
        Where the labels of each row start; no row is without.
    share : ndarray of shape (n_labels,)
        Label shares f, summing to 1 in each row.
    outside : ndarray of shape (n_rows,)
        Log-sum-exp of the logits of all other classes; -inf where there are none.

    Returns
    -------
    loss : ndarray of shape (n_rows,)
        -sum_v f_v log p_v.
    log_odds : ndarray of shape (n_rows,)
        log(tail / (1 - tail)).
    residual : ndarray of shape (n_labels,)
        In units of exp(unit).
    unit : ndarray of shape (n_rows,)
        Log of the larger of tail and max |r - f|; -inf where both are zero.
    tail : ndarray of shape (n_rows,)
        Probability outside the labels, in units of exp(unit).
    """
    sizes = np.diff(start, append=len(logits))
    top = np.maximum.reduceat(logits, start)
    shifted = logits - np.repeat(top, sizes)
    weight = np.exp(shifted)
    total = np.add.reduceat(weight, start)
    inside = weight / np.repeat(total, sizes)
    log_total = np.log(total)
    log_odds = outside - top - log_total
    log_odds_loss = softplus(log_odds)
    loss = log_odds_loss - np.add.reduceat(share * (shifted - np.repeat(log_total, sizes)), start)
    difference = inside - share
    with np.errstate(divide="ignore"):
        log_difference = np.log(np.maximum.reduceat(np.abs(difference), start))
    log_tail = log_odds - log_odds_loss
    unit = np.maximum(log_difference, log_tail)
    safe = np.where(unit > -np.inf, unit, 0.0)
    tail = np.exp(log_tail - safe)
    # A difference that is not exactly zero is above 1e-17, so the clip changes no product.
    grown = np.exp(np.minimum(-safe, 100.0))
    residual = difference * np.repeat(grown, sizes) - inside * np.repeat(tail, sizes)
    return loss, log_odds, residual, unit, tail


def attention_gradient(raised, g):
    """Gradient phi_x (g_x - sum_u phi_u g_u) of the scores, as (values, log scale).

    With m the token of largest attention and mu = sum_u phi_u (g_m - g_u), the gradient of
    x != m is phi_x ((g_x - g_m) + mu), and that of m is minus the sum of the others; formed
    directly, both cancel once phi_m is near 1.

    Parameters
    ----------
    raised : ndarray of shape (l, n)
        Score plus log count, minus its maximum over axis 0.
    g : ndarray of shape (l, n)

    Returns
    -------
    values : ndarray of shape (l, n)
        The gradient divided by exp(log_scale).
    log_scale : ndarray of shape (n,)
        Log of the largest attention, relative to that of m, among tokens whose g differs from
        g_m; -inf where all are equal and the gradient is exactly zero.
    """
    columns = np.arange(g.shape[1])
    m = np.argmax(raised, axis=0)
    difference = g - g[m, columns]
    live = difference != 0.0
    log_scale = np.max(np.where(live, raised, -np.inf), axis=0)
    shift = np.where(log_scale > -np.inf, log_scale, 0.0)
    weight = np.exp(raised)
    total = weight.sum(axis=0)
    phi = np.exp(np.where(live, raised - shift, -np.inf)) / total  # (l, n) in units exp(log_scale)
    mu = -(phi * difference).sum(axis=0)
    values = phi * (difference + mu * np.exp(shift))
    # Tokens whose g equals g_m get phi_x mu, not zero: at the zero start that is nearly all.
    values = np.where(live, values, weight / total * mu)
    values[m, columns] = 0.0
    values[m, columns] = -values.sum(axis=0)
    return values, log_scale

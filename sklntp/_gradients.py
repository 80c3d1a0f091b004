"""The formulas that keep a gradient accurate where 1 - p and attention underflow.

Each returns its result relative to exp(a log scale), and none subtracts what nearly cancels.
"""

import numpy as np

_WEAK = 1e-100  # g below this, in units of the residual, is computed again in a unit of its own
_DOUBTFUL = 1.0 / 64.0  # differences of g below this share of their terms are computed with care


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


def doubtful(raised, g, terms, column):
    """Contexts whose gradient may have lost digits where g_x - g_m cancels, (n,) bool.

    Parameters
    ----------
    raised : ndarray of shape (l, n)
        Score plus log count, minus its maximum over axis 0.
    g : ndarray of shape (l, n)
        Equal to the bit for tokens with equal columns of W_ov.
    terms : ndarray of shape (l, n)
        Upper bounds of the sums of the absolute terms that g was added up from.
    column : ndarray of shape (l, n)
        A number for each token, the same for tokens with equal columns of W_ov.

    Returns
    -------
    ndarray of shape (n,)
        False where the largest phi_x |g_x - g_m| is at least 1/64 of the terms behind any of them:
        no more than two digits are lost there. A difference of zero counts, unless the columns
        are equal: rounding may have hidden it.
    """
    rows = np.arange(g.shape[1])
    m = np.argmax(raised, axis=0)
    differs = column != column[m, rows]
    live = np.where(differs, raised, -np.inf)
    top = live.max(axis=0)
    phi = np.exp(live - np.where(top > -np.inf, top, 0.0))
    difference = (phi * np.abs(g - g[m, rows])).max(axis=0)
    terms = (phi * (terms + terms[m, rows])).max(axis=0)
    return differs.any(axis=0) & ~(difference > _DOUBTFUL * terms)


def careful_gradient(raised, columns, label, label_start, share, n_other):
    """As `attention_gradient`, from the columns of W_ov: none of its differences cancels.

    The columns are taken minus that of the token m of largest attention, then minus their entries
    at the first label. Neither changes g_x - g_m, the residuals summing to zero. Columns that are
    equal bit for bit then give exactly zero, and so do two classes that a token votes for alike,
    whose large residuals would cancel.

    Parameters
    ----------
    raised : ndarray of shape (l, n)
        Score plus log count, minus its maximum over axis 0.
    columns : ndarray of shape (n, l, n_classes)
        The columns of W_ov of each context; overwritten.
    label : ndarray of shape (n_labels,)
        The labels of each context, context by context.
    label_start : ndarray of shape (n,)
        Where the labels of each context start.
    share : ndarray of shape (n_labels,)
    n_other : int
        The number of classes beyond these, for which all columns are zero.

    Returns
    -------
    values : ndarray of shape (l, n)
        The gradient divided by exp(log_scale).
    log_scale : ndarray of shape (n,)
    """
    rows = np.arange(len(columns))
    label_row = np.repeat(rows, np.diff(label_start, append=len(label)))
    phi = np.exp(raised)
    phi /= phi.sum(axis=0)
    logits = np.matmul(phi.T[:, None, :], columns)[:, 0, :]  # (n, classes)
    label_logits = logits[label_row, label]
    logits[label_row, label] = -np.inf
    # Log-sum-exp over the classes outside the labels, those without a vote included.
    top = logits.max(axis=1)
    if n_other:
        top = np.maximum(top, 0.0)
    top = np.where(top > -np.inf, top, 0.0)
    logits -= top[:, None]
    residual = np.exp(logits)
    without = n_other * np.exp(-top) if n_other else np.zeros(len(top))
    total = residual.sum(axis=1) + without
    with np.errstate(divide="ignore"):
        log_total = np.log(total)
    _, log_odds, label_residual, unit, tail = label_residuals(
        label_logits, label_start, share, top + log_total
    )
    tail /= np.where(total > 0.0, total, 1.0)
    residual *= tail[:, None]
    without *= tail
    residual[label_row, label] = label_residual

    columns -= columns[rows, np.argmax(raised, axis=0)][:, None, :]
    label_votes = columns[rows, :, label[label_start]].copy()  # (n, l)
    columns -= label_votes[:, :, None]
    # The entries at the classes without a vote are now minus those at the label.
    g = np.matmul(columns, residual[:, :, None])[:, :, 0] - label_votes * without[:, None]

    # Where g underflows it is done again, in a unit of its own.
    with np.errstate(invalid="ignore"):  # without a class outside the labels: not finite
        log_norm = log_total + softplus(-log_odds) + unit
    weak = (np.abs(g).max(axis=1) < _WEAK) & np.isfinite(log_norm)
    weak[label_row[columns[label_row, :, label].any(axis=1)]] = False
    weak = np.flatnonzero(weak)
    if len(weak):
        g[weak], unit_of_g = _weak_votes(
            columns[weak], label_votes[weak], logits[weak], top[weak], log_norm[weak], n_other
        )
        unit[weak] += unit_of_g
    values, log_scale = attention_gradient(raised, g.T)
    return values, unit + log_scale


def _weak_votes(columns, label_votes, logits, top, log_norm, n_other):
    """g and the log of its unit where the classes that tell the tokens apart are improbable.

    1 - p is then made of classes that make no difference to any token, or the residuals at several
    labels make none. A class outside the labels has log p_v = logits_v - log_norm, in units of the
    residual.
    """
    live = columns.any(axis=1)
    log_p = np.where(live, logits, -np.inf) - log_norm[:, None]
    log_p_without = np.full(len(columns), -np.inf)
    if n_other:
        log_p_without = np.log(n_other) - top - log_norm
        log_p_without[~label_votes.any(axis=1)] = -np.inf
    best = np.maximum(log_p.max(axis=1), log_p_without)
    best = np.where(best > -np.inf, best, 0.0)
    p, p_without = np.exp(log_p - best[:, None]), np.exp(log_p_without - best)
    return np.matmul(columns, p[:, :, None])[:, :, 0] - label_votes * p_without[:, None], best

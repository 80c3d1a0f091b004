"""The paper's equations, literally: dense matrices, one-hot embeddings, loops over sentences.

Independent of the package: nothing here merges, sorts, rescales or rearranges. A sentence is a
list of token numbers, the identity matrix embeds them, W_ov is (C, V) and W_kq is (V, V).

`gradients` also takes object arrays of `Decimal`: the same equations with as many digits as the
decimal context has.
"""

from decimal import Decimal

import numpy as np


def exact(array):
    """Floats as an object array of Decimal, digit for digit."""
    return np.vectorize(Decimal, otypes=[object])(array)


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def forward(w_ov, w_kq, sentence, embedding=None):
    """Probabilities of the next token, attention per position, the matrix X of the sentence.

    `embedding` has one column per token; W_ov is then (C, d) and W_kq is (d, d).
    """
    embedding = np.eye(len(w_kq), dtype=int) if embedding is None else embedding
    x = embedding[:, sentence]  # (d, L), one column per position
    query = x[:, -1]
    phi = softmax(x.T @ w_kq @ query)
    return softmax(w_ov @ x @ phi), phi, x


def mean_loss(w_ov, w_kq, sentences, labels, weights, embedding=None):
    """Weighted mean of -log p(label)."""
    losses = [
        -np.log(forward(w_ov, w_kq, s, embedding)[0][y])
        for s, y in zip(sentences, labels, strict=True)
    ]
    return np.average(losses, weights=weights)


def gradients(w_ov, w_kq, sentences, labels, weights, embedding=None):
    """Gradients of `mean_loss` with respect to both matrices."""
    g_ov, g_kq = np.zeros_like(w_ov), np.zeros_like(w_kq)
    total = np.sum(weights)
    for sentence, label, weight in zip(sentences, labels, weights, strict=True):
        p, phi, x = forward(w_ov, w_kq, sentence, embedding)
        residual = p.copy()
        residual[label] -= 1
        g_ov += weight / total * np.outer(residual, x @ phi)
        d_score = (np.diag(phi) - np.outer(phi, phi)) @ x.T @ w_ov.T @ residual
        g_kq += weight / total * np.outer(x @ d_score, x[:, -1])
    return g_ov, g_kq


def known_gradients(n_known, *args):
    """As `gradients`, zero for the tokens from `n_known` on, which are unknown."""
    g_ov, g_kq = gradients(*args)
    if n_known is not None:
        g_ov[:, n_known:] = g_kq[n_known:] = g_kq[:, n_known:] = 0
    return g_ov, g_kq


def descend(gradient, w, steps, step_size):
    """Normalized gradient descent; returns all iterates, the start first.

    `step_size` is a number, or a sequence with one per step.
    """
    path = [w]
    for eta in np.broadcast_to(step_size, steps):
        g = gradient(path[-1])
        path.append(path[-1] - eta * g / np.sqrt((g * g).sum()))
    return path


def collocation_samples(sentences, labels, weights, mode, n_known=None):
    """One-token sentences, labels and weights that train W_ov, as in the three modes."""
    samples = list(zip(sentences, labels, weights, strict=True))
    if mode == "single":
        chosen = [(s[0], y, w) for s, y, w in samples if len(s) == 1]
        total = {}
        for x, _, w in chosen:
            total[x] = total.get(x, 0) + w
        chosen = [(x, y, w / total[x]) for x, y, w in chosen]
    elif mode == "last":
        chosen = [(s[-1], y, w) for s, y, w in samples]
    else:
        chosen = [(x, y, w) for s, y, w in samples for x in sorted(set(s))]
    if n_known is not None:
        chosen = [(x, y, w) for x, y, w in chosen if x < n_known]
    return [[x] for x, _, _ in chosen], [y for _, y, _ in chosen], [w for _, _, w in chosen]


def two_stage(
    sentences,
    labels,
    weights,
    n_tokens,
    n_classes,
    mode,
    steps,
    step_size,
    *,
    n_known=None,
    embedding=None,
):
    """Algorithm 1: the iterates of W_ov, those of W_kq, and both loss curves.

    Tokens from `n_known` on are unknown: their parts of both matrices stay zero.
    """
    size = n_tokens if embedding is None else len(embedding)
    w_ov, w_kq = np.zeros((n_classes, size)), np.zeros((size, size))
    single = collocation_samples(sentences, labels, weights, mode, n_known)
    every = sentences, labels, weights
    ov = descend(
        lambda a: known_gradients(n_known, a, w_kq, *single, embedding)[0], w_ov, steps, step_size
    )
    kq = descend(
        lambda a: known_gradients(n_known, ov[-1], a, *every, embedding)[1], w_kq, steps, step_size
    )
    return (
        ov,
        kq,
        [mean_loss(a, w_kq, *single, embedding) for a in ov],
        [mean_loss(ov[-1], a, *every, embedding) for a in kq],
    )


def joint(sentences, labels, weights, n_tokens, n_classes, steps, step_size, *, start=None):
    """One stage over both matrices together, one norm; the last iterates and the losses."""
    w_ov, w_kq = start or (np.zeros((n_classes, n_tokens)), np.zeros((n_tokens, n_tokens)))
    losses = [mean_loss(w_ov, w_kq, sentences, labels, weights)]
    for _ in range(steps):
        g_ov, g_kq = gradients(w_ov, w_kq, sentences, labels, weights)
        norm = np.sqrt((g_ov**2).sum() + (g_kq**2).sum())
        w_ov, w_kq = w_ov - step_size * g_ov / norm, w_kq - step_size * g_kq / norm
        losses.append(mean_loss(w_ov, w_kq, sentences, labels, weights))
    return w_ov, w_kq, losses

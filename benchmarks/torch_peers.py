"""Stage 2 in PyTorch: the dense way of the field, and structured ways with autograd.

Each function returns ``(step, gradient)``: `step()` evaluates the loss, differentiates it, makes
one normalized gradient step and returns the loss; `gradient()` is the last gradient as an array.
The loss is one sum over all sentences, its gradient gathered batch by batch.
"""

import numpy as np

_STEP_SIZE = 0.2


def _tensors(batch, *names):
    import torch

    return [torch.from_numpy(np.ascontiguousarray(getattr(batch, name))) for name in names]


def _descend(parameter):
    import torch

    with torch.no_grad():
        gradient = parameter.grad
        parameter -= gradient * (_STEP_SIZE / torch.linalg.vector_norm(gradient))


def dense(sentences, key_query, batch_size=256):
    """W_kq (V, V) and W_ov (C, V) as dense matrices, sentences as one-hot tensors (batch, L, V).

    One-hot tensors are made batch by batch: those of 100,000 sentences would take 10 GB.
    """
    import torch
    from torch.nn import functional as F

    W_kq = torch.tensor(key_query, requires_grad=True)
    W_ov = torch.from_numpy(sentences.output)
    names = ("token", "log_count", "query", "label", "weight")
    batches = [_tensors(batch, *names) for batch in sentences.batches(batch_size)]
    n_tokens = len(W_kq)

    def step():
        W_kq.grad, total = None, 0.0
        for token, log_count, query, label, weight in batches:
            X = F.one_hot(token, n_tokens).double()  # (batch, L, V)
            last = F.one_hot(query, n_tokens).double()  # (batch, V)
            scores = (X @ (last @ W_kq.T)[:, :, None])[:, :, 0]
            phi = torch.softmax(scores + log_count, dim=1)
            logits = (phi[:, None, :] @ X)[:, 0, :] @ W_ov.T
            loss = torch.dot(F.cross_entropy(logits, label, reduction="none"), weight)
            loss.backward()
            total += loss.item()
        _descend(W_kq)
        return total

    return step, lambda: W_kq.grad.numpy()


def structured(sentences, theta, pieces, *, loss="classes", axis=1):
    """Scores gathered from one parameter per (token, query) pair; logits from votes alone.

    Parameters
    ----------
    sentences : PaddedSentences
    theta : ndarray of shape (n_pairs,)
    pieces : list of PaddedSentences
        The sentences in batches.
    loss : {"classes", "votes"}, default="classes"
        Whether the votes are scattered to logits of all C classes for `cross_entropy`, or the
        classes without a vote, all of logit 0, are counted instead of being stored.
    axis : {1, 0}, default=1
        Where the tokens of a sentence run; 0 stores each piece transposed.
    """
    import torch
    from torch.nn import functional as F

    w = torch.tensor(theta, requires_grad=True)
    n_classes = sentences.n_classes
    names = ("pair", "log_count", "vote", "next_class", "label", "weight")
    batches = []
    for piece in pieces:
        tensors = _tensors(piece, *names)
        if axis == 0:
            tensors[:4] = [tensor.T.contiguous() for tensor in tensors[:4]]
        batches.append(tensors)
    pair = torch.cat([tensors[0].reshape(-1) for tensors in batches])
    sizes = [tensors[0].numel() for tensors in batches]

    def losses(votes, next_class, label):
        if loss == "votes":
            # Padding has vote 0 as well: it stands for as many of the classes without a vote.
            silent = n_classes - votes.shape[axis]
            return torch.log(torch.exp(votes).sum(axis) + silent) - votes.select(axis, 0)
        logits = votes.new_zeros(len(votes), n_classes + 1).scatter_add(1, next_class, votes)
        return F.cross_entropy(logits[:, :n_classes], label, reduction="none")

    def step():
        w.grad, total = None, 0.0
        for scores, (_, log_count, vote, next_class, label, weight) in zip(
            w.index_select(0, pair).split(sizes), batches, strict=True
        ):
            phi = torch.softmax(scores.view(log_count.shape) + log_count, dim=axis)
            total = total + torch.dot(losses(phi * vote, next_class, label), weight)
        total.backward()
        _descend(w)
        return total.item()

    return step, lambda: w.grad.numpy()

"""A step of stage 2 beside PyTorch and a loop: float64, the same data, the same W_ov.

Everyone gets the merged contexts. PyTorch gets the batch sizes that were fastest for it, and four
structured forms, from the usual one to a copy of our own layout. What is too slow for all sentences
is timed on two subsets and scaled in proportion to their number, from the subset that takes less
per sentence. On a subset, every peer's loss and gradient are first asserted to be ours.
"""

from functools import partial

import numpy as np
import torch_peers
from common import Row, alternate, duration, median_ratio, progress, run_alone
from sentences import padded_sentences
from threadpoolctl import threadpool_limits
from workload import SecondStage

from sklntp._threads import Threads
from sklntp.datasets import make_realizable_ntp

TOLERANCE = 1e-9  # of the loss, and of the gradient relative to its largest entry
N_THREADS = 2


def numpy_loop(sentences, key_query):
    """One sentence after the other in plain NumPy; as `torch_peers`."""
    W_kq, W_ov = key_query.copy(), sentences.output
    gradient = np.zeros_like(W_kq)

    def step():
        gradient[...] = 0.0
        total = 0.0
        for i, length in enumerate(sentences.length):
            token, query = sentences.token[i, :length], sentences.query[i]
            scores = W_kq[token, query] + sentences.log_count[i, :length]
            phi = np.exp(scores - scores.max())
            phi /= phi.sum()
            columns = W_ov[:, token]  # (C, length)
            logits = columns @ phi
            p = np.exp(logits - logits.max())
            p /= p.sum()
            label, weight = sentences.label[i], sentences.weight[i]
            total -= weight * np.log(p[label])
            p[label] -= 1.0
            g = columns.T @ p
            gradient[token, query] += weight * phi * (g - phi @ g)
        W_kq[...] -= 0.2 * gradient / np.linalg.norm(gradient)
        return total

    return step, lambda: gradient


def key_query_matrix(stage):
    """W_kq as a dense matrix (V, V)."""
    n_tokens = stage.pairs.n_tokens
    matrix = np.zeros(n_tokens * n_tokens)
    matrix[stage.pairs.key] = stage.theta
    return np.ascontiguousarray(matrix.reshape(n_tokens, n_tokens).T)


def structured_peers(sentences, theta):
    """The structured ways, each as (step, gradient), with batches of the fastest size for each."""
    make = partial(torch_peers.structured, sentences, theta)
    return {
        "classes": make(sentences.batches(256)),
        "padded": make(sentences.batches(8192, cut=False), loss="votes"),
        "sorted": make(sentences.batches(8192), loss="votes"),
        "blocks": make(sentences.equal_lengths(), loss="votes", axis=0),
    }


def check(stage, sentences):
    """Assert that the loss and the gradient of every peer are those of ours."""
    value = stage.loss(stage.theta)
    expected = value.gradient * np.exp(value.log_scale)
    key_query = key_query_matrix(stage)
    peers = structured_peers(sentences, stage.theta)
    peers["dense"] = torch_peers.dense(sentences, key_query)
    peers["loop"] = numpy_loop(sentences, key_query)
    largest = 0.0
    for name, (step, gradient) in peers.items():
        loss_error = abs(step() - value.loss)
        found = gradient()
        if found.ndim == 2:
            found = found.T.ravel()[stage.pairs.key]
        gradient_error = np.abs(found - expected).max() / np.abs(expected).max()
        largest = max(largest, loss_error, gradient_error)
        if not largest <= TOLERANCE:
            raise AssertionError(
                f"{name}: the loss differs from ours by {loss_error:.0e}, the gradient by "
                f"{gradient_error:.0e} of its largest entry; at most {TOLERANCE:.0e} is allowed."
            )
    progress(f"peers: losses and gradients of {len(peers)} peers equal ours to {largest:.0e}")


def measure(
    n_tokens=1_000,
    n_sentences=100_000,
    max_length=16,
    rounds=5,
    dense_sizes=(2_048, 4_096),
    loop_sizes=(1_000, 2_000),
):
    """The rows of every peer against ours."""
    import torch

    torch.set_num_threads(N_THREADS)
    bunch = make_realizable_ntp(n_tokens, n_sentences, max_length=max_length, random_state=0)
    n_checked = min(n_sentences, 3 * n_tokens)
    checked = SecondStage(bunch.X[:n_checked], bunch.y[:n_checked])
    check(checked, padded_sentences(checked))

    stage = SecondStage(bunch.X, bunch.y)
    sentences = padded_sentences(stage)
    key_query = key_query_matrix(stage)
    rng = np.random.default_rng(0)

    def subset(size):
        return sentences.take(np.sort(rng.choice(len(sentences.length), size, replace=False)))

    functions = {name: step for name, (step, _) in structured_peers(sentences, stage.theta).items()}
    for size in dense_sizes:
        functions["dense", size] = torch_peers.dense(subset(size), key_query)[0]
    for size in loop_sizes:
        functions["loop", size] = numpy_loop(subset(size), key_query)[0]
    progress(f"peers: timing {len(functions)} of them in turn")
    with threadpool_limits(N_THREADS), Threads(N_THREADS) as threads:
        loss = stage.threaded_loss(threads)
        functions["ours"] = partial(stage.run, loss)
        seconds = alternate(functions, rounds, repeats={"ours": 5})
    ours = seconds["ours"] / stage.evaluations()
    n = len(sentences.length)
    what = f"a step of stage 2, {n_sentences:,} sentences ({n:,} contexts), {n_tokens:,} tokens"
    what += ", two threads"
    rows = []
    for key, yardstick, at_least in (
        ("dense", "dense PyTorch: one-hot tensors, V × V matrices", 300),
        ("classes", "structured PyTorch: padded gather, `cross_entropy` over C classes", 8),
        ("padded", "structured PyTorch: padded gather, classes without a vote only counted", 8),
        ("sorted", "as before, batches cut to their longest sentence", None),
        ("blocks", "our layout and formula in PyTorch", None),
        ("loop", "a NumPy loop over sentences, one thread", None),
    ):
        sizes = {"dense": dense_sizes, "loop": loop_sizes}.get(key)
        if sizes is None:
            theirs, how = seconds[key], ""
        else:
            theirs, how = scaled({size: seconds[key, size] for size in sizes}, n)
        rows.append(
            Row(
                what,
                duration(np.median(ours)),
                f"{yardstick}: {duration(np.median(theirs))}{how}",
                median_ratio(theirs, ours),
                at_least=at_least,
            )
        )
        what = "the same"
    return rows


def scaled(seconds, n):
    """Seconds for n sentences from those of subsets, and how they came about as text."""
    per_sentence = {size: np.median(value) / size for size, value in seconds.items()}
    size = min(per_sentence, key=per_sentence.get)
    costs = " and ".join(duration(cost) for cost in per_sentence.values())
    sizes = " and ".join(f"{size:,}" for size in per_sentence)
    how = f", scaled from {size:,} sentences (subsets of {sizes} take {costs} a sentence)"
    return seconds[size] * (n / size), how


if __name__ == "__main__":
    run_alone(measure, __doc__)

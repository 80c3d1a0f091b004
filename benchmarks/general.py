"""A step where tokens have several next tokens, beside PyTorch doing the same.

Text-like data: Zipf frequencies, favourite successors, contexts of up to eight tokens. PyTorch
pads the contexts, weights gathered columns of W_ov by attention, and differentiates its
`cross_entropy`; `embedding_bag`, which does not store the gathered columns, is timed beside it.
Both come in batches of a size that suits them. Losses and gradients are compared in the same run.
"""

import numpy as np
from common import (
    Row,
    alternate,
    duration,
    in_subprocess,
    median_ratio,
    peak_memory,
    progress,
    run_alone,
)

from sklntp._dataset import build_dataset
from sklntp._joint_loss import JointLoss
from sklntp._model import zero_model
from sklntp._ngd import StepSizes
from sklntp._stages import AttentionStage
from sklntp._threads import Threads
from sklntp._training import Plan, Training
from sklntp.preprocessing import make_contexts

_BATCH = 200  # contexts; with 100 and 500 the padded gather takes 1.1 to 1.7 times as long
_WAYS = {"gather": "padded gather", "bag": "embedding_bag"}


def text(n_sequences, n_tokens=1_900, length=24, n_favourites=40, surprise=0.15, seed=0):
    """Sequences (n_sequences, length) of token numbers.

    A token is followed by one of its favourites, most often by the first ones, or by surprise
    another; tokens and favourites have Zipf frequencies.
    """
    rng = np.random.default_rng(seed)
    frequency = np.cumsum(1.0 / (np.arange(n_tokens) + 2.7))
    preference = np.cumsum(1.0 / (np.arange(n_favourites) + 1.0))

    def draw(weights, size):
        return np.searchsorted(weights, weights[-1] * rng.random(size), side="right")

    favourites = draw(frequency, (n_tokens, n_favourites))
    sequences = np.empty((n_sequences, length), dtype=np.intp)
    sequences[:, 0] = draw(frequency, n_sequences)
    for t in range(1, length):
        usual = favourites[sequences[:, t - 1], draw(preference, n_sequences)]
        other = draw(frequency, n_sequences)
        sequences[:, t] = np.where(rng.random(n_sequences) < surprise, other, usual)
    return sequences


class Stage:
    """Merged contexts of a text, and a point of training where no score is zero any more."""

    def __init__(self, n_sequences):
        X, y, _ = make_contexts(text(n_sequences).tolist(), max_length=8)
        self.data = build_dataset(X, y, collocation="last")
        steps = [StepSizes(0.2, stop=100), StepSizes(0.2, stop=5)]
        self.model = Training(self.data, zero_model(self.data), Plan(("ov", "kq"), steps)).run()
        self.pairs = AttentionStage(self.data, self.model).pairs
        self.theta = np.zeros(len(self.pairs.key))
        self.output = self.model.output.dense().T  # (V, C)
        self.joint_theta = np.append(self.output.ravel(), self.theta)

    def attention_loss(self, threads):
        """The loss of stage 2."""
        return AttentionStage(self.data, self.model, threads=threads).loss

    def joint_loss(self, threads):
        """The loss of the joint stage."""
        data = self.data
        return JointLoss(data.contexts, data.labels, len(data.classes), self.pairs, threads=threads)


class Torch:
    """The loss of a stage in PyTorch; `way` is "gather" or "bag"."""

    def __init__(self, stage, way, *, joint=False):
        import torch

        self.torch, self.way = torch, way
        contexts, labels = stage.data.contexts, stage.data.labels
        n, longest = len(contexts), int(contexts.lengths.max())
        inside = np.arange(longest) < contexts.lengths[:, None]
        query = np.repeat(contexts.query, contexts.lengths)
        token = np.full((n, longest), contexts.n_tokens)
        log_count, pair = np.full((n, longest), -np.inf), np.full((n, longest), len(stage.theta))
        token[inside], log_count[inside] = contexts.tokens, np.log(contexts.counts)
        pair[inside] = stage.pairs.find(query, contexts.tokens)
        output = np.vstack([stage.output, np.zeros(stage.output.shape[1])])  # padding
        tensors = [token, log_count, pair, labels.context, labels.classes]
        tensors.append(labels.share * labels.probability[labels.context])
        token, log_count, pair, row, label, weight = map(torch.from_numpy, tensors)
        self.output = torch.tensor(output, requires_grad=joint)
        self.scores = torch.tensor(np.append(stage.theta, 0.0), requires_grad=True)
        self.batches = []
        for start in range(0, n, _BATCH):
            rows = slice(start, min(start + _BATCH, n))
            at = slice(*labels.offsets[[rows.start, rows.stop]].tolist())
            context = row[at] - start
            if len(context) == rows.stop - start:
                context = None  # one label each: no copy of the logits
            self.batches.append(
                (token[rows], log_count[rows], pair[rows], context, label[at], weight[at])
            )

    def step(self):
        """The loss; its gradient is in `output.grad` and `scores.grad`."""
        torch, F = self.torch, self.torch.nn.functional
        self.output.grad = self.scores.grad = None
        total = 0.0
        for token, log_count, pair, context, label, weight in self.batches:
            phi = torch.softmax(self.scores[pair] + log_count, dim=1)
            if self.way == "gather":
                logits = torch.matmul(phi[:, None, :], self.output[token])[:, 0, :]
            else:
                logits = F.embedding_bag(token, self.output, per_sample_weights=phi, mode="sum")
            logits = logits if context is None else logits[context]
            loss = torch.dot(F.cross_entropy(logits, label, reduction="none"), weight)
            loss.backward()
            total += loss.item()
        return total

    def gradient(self):
        """The last gradient, as ours: of W_ov if it is trained, then of W_kq."""
        scores = self.scores.grad.numpy()[:-1]
        if self.output.grad is None:
            return scores
        return np.append(self.output.grad.numpy()[:-1].ravel(), scores)


def _compare(evaluation, loss, gradient):
    """Raise AssertionError unless both losses and gradients are equal to 1e-9."""
    np.testing.assert_allclose(evaluation.loss, loss, rtol=1e-9)
    ours = np.exp(evaluation.log_scale) * evaluation.gradient
    np.testing.assert_allclose(ours, gradient, rtol=0, atol=1e-9 * np.abs(gradient).max())


def _peak(n_sequences, joint):
    """Peak memory in bytes of a process that makes the data and takes three steps."""
    stage = Stage(n_sequences)
    with Threads(2) as threads:
        loss = stage.joint_loss(threads) if joint else stage.attention_loss(threads)
        for _ in range(3):
            loss(stage.joint_theta if joint else stage.theta)
    return peak_memory()


def measure(n_sequences=2_800, rounds=5):
    """The rows of both stages: a step against PyTorch, and the peak memory."""
    # First: where a process starts another, its own peak may count as that of the new one.
    peaks = [in_subprocess(_peak, n_sequences, joint) for joint in (False, True)]
    import torch

    torch.set_num_threads(2)
    stage = Stage(n_sequences)
    contexts, rows = stage.data.contexts, []
    progress(
        f"general: {len(contexts):,} contexts of {np.mean(contexts.lengths):.1f} distinct tokens, "
        f"{contexts.n_tokens:,} tokens, {len(stage.data.classes):,} classes, "
        f"{len(stage.model.output.value):,} votes"
    )
    for joint, peak in zip((False, True), peaks, strict=True):
        name, theta = "kq", stage.theta
        if joint:
            name, theta = "joint", stage.joint_theta
        peers = {way: Torch(stage, way, joint=joint) for way in _WAYS}
        with Threads(2) as threads:
            loss = stage.joint_loss(threads) if joint else stage.attention_loss(threads)
            evaluation = loss(theta)
            for peer in peers.values():
                _compare(evaluation, peer.step(), peer.gradient())
            seconds = alternate(
                {"ours": lambda loss=loss, theta=theta: loss(theta)}
                | {way: peer.step for way, peer in peers.items()},
                rounds,
                repeats={"ours": 3},
            )
        what = f"general path, a step of stage {name}, two threads"
        ours = duration(np.median(seconds["ours"]))
        for way, title in _WAYS.items():
            rows.append(
                Row(
                    f"{what}: PyTorch, {title}",
                    ours,
                    duration(np.median(seconds[way])),
                    median_ratio(seconds[way], seconds["ours"]),
                    at_least=5.0 if way == "gather" else None,
                )
            )
        rows.append(
            Row(
                f"general path, stage {name}: peak memory",
                f"{peak / 1e9:.2f} GB",
                "1 GB",
                peak / 1e9,
                at_most=1.0,
            )
        )
    return rows


if __name__ == "__main__":
    run_alone(measure, __doc__)

"""scikit-learn's classifiers on bags of tokens, beside ours: accuracy on unseen sentences.

`LogisticRegression` and `MLPClassifier` with their defaults on `CountVectorizer` counts and the
one-hot last token, for information. Ours has its defaults too. The unseen sentences are those of
`make_realizable_ntp`, of which the theory determines the next token.
"""

import time
import warnings

import numpy as np
from common import Row, duration, progress, run_alone
from scipy.sparse import hstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp


def _itself(sentence):
    return sentence


def features(X, unseen):
    """Counts of the tokens beside the one-hot last token, for training and unseen sentences."""
    counts = CountVectorizer(analyzer=_itself).fit(X)
    last = CountVectorizer(analyzer=_itself).fit([sentence[-1:] for sentence in X])
    return [
        hstack([counts.transform(part), last.transform([s[-1:] for s in part])], format="csr")
        for part in (X, unseen)
    ]


def measure(n_tokens=100, n_sentences=10_000, max_length=16):
    """The rows of both classifiers; the ratio is their seconds of `fit` to ours."""
    bunch = make_realizable_ntp(n_tokens, n_sentences, max_length=max_length, random_state=0)
    y, y_unseen = bunch.y, bunch.y_unseen
    train, unseen = features(bunch.X, bunch.X_unseen)
    results = {}
    with threadpool_limits(2), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # max_iter is the default's
        for name, classifier, X, X_unseen in (
            ("ours", NTPTransformerClassifier(), bunch.X, bunch.X_unseen),
            ("LogisticRegression", LogisticRegression(), train, unseen),
            ("MLPClassifier", MLPClassifier(random_state=0), train, unseen),
        ):
            start = time.perf_counter()
            classifier.fit(X, y)
            seconds = time.perf_counter() - start
            accuracy = np.mean(classifier.predict(X_unseen) == y_unseen)
            results[name] = seconds, accuracy
            progress(f"classifiers: {name} {duration(seconds)}, accuracy {accuracy:.4f}")
    seconds, accuracy = results.pop("ours")
    return [
        Row(
            f"`fit` with defaults, {n_sentences:,} sentences, {n_tokens} tokens",
            f"{duration(seconds)}, accuracy {accuracy:.4f} on {len(y_unseen):,} unseen",
            f"{name}: {duration(theirs)}, accuracy {accuracy_theirs:.4f}",
            theirs / seconds,
        )
        for name, (theirs, accuracy_theirs) in results.items()
    ]


if __name__ == "__main__":
    run_alone(measure, __doc__)

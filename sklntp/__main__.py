"""The demonstration: ``python -m sklntp``, through the public API only.

(a) The paper's experiment on 20 tokens: both stages against their references, with the measured
rates. (b) Next tokens of the standard library's own Python source, beside a bigram baseline.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict

import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit

import sklntp
from sklntp import NTPTransformerClassifier
from sklntp.datasets import load_python_tokens, make_realizable_ntp
from sklntp.metrics import convergence_rate
from sklntp.model_selection import UnseenSentenceKFold
from sklntp.preprocessing import make_contexts
from sklntp.structure import check_realizable

N_STEPS = 10_000
SHOWN = (1, 10, 100, 1000, 10_000)


def paper_experiment():
    """Train on realizable data; print losses, norms, directions and rates of both stages."""
    data = make_realizable_ntp(n_tokens=20, n_sentences=200, random_state=0)
    print("(a) The paper's experiment: make_realizable_ntp, 20 tokens, 200 sentences\n")
    print(check_realizable(data.X, data.y))
    clf = NTPTransformerClassifier(max_iter=N_STEPS, track_alignment=True)
    clf.fit(data.X, data.y)
    # Accuracy on unseen sentences at the same points, from fits that stop there.
    unseen = {
        t: NTPTransformerClassifier(max_iter=(N_STEPS, t))
        .fit(data.X, data.y)
        .score(data.X_unseen, data.y_unseen)
        for t in SHOWN
    }
    for stage, claim in (("ov", "log t / t"), ("kq", "log^2 t / t")):
        curve = clf.convergence_[stage]
        print(f"\nstage {stage!r}, step size {clf.step_size}; claimed: dist = O({claim})")
        print("      t        loss      norm  norm/(eta t)    cosine      dist  train acc", end="")
        print("  unseen acc" if stage == "kq" else "")
        for t in SHOWN:
            line = (
                f"{t:7d}  {curve['loss'][t]:10.3e}  {curve['norm'][t]:8.2f}  "
                f"{curve['norm'][t] / (clf.step_size * t):12.6f}  {curve['cosine'][t]:8.6f}  "
                f"{curve['dist'][t]:8.2e}  {curve['accuracy'][t]:9.4f}"
            )
            print(line + (f"  {unseen[t]:10.4f}" if stage == "kq" else ""))
        t, norm = np.arange(100, N_STEPS + 1), curve["norm"][100:]
        growth = np.polyfit(np.log(t), np.log(norm), 1)[0]
        print(f"norm ~ t^{growth:.3f} over t = 100 ... {N_STEPS} (claimed: t^1)")
        print(convergence_rate(clf.convergence_, stage).directions[stage])


def bigram_accuracy(X_train, y_train, X_test, y_test):
    """Accuracy of the commonest next token after the last token."""
    after = defaultdict(Counter)
    for sentence, label in zip(X_train, y_train, strict=True):
        after[sentence[-1]][label] += 1
    overall = Counter(y_train.tolist()).most_common(1)[0][0]
    best = {token: counts.most_common(1)[0][0] for token, counts in after.items()}
    predicted = [best.get(sentence[-1], overall) for sentence in X_test]
    return np.mean(np.array(predicted) == y_test)


def python_source():
    """Search the step size on contexts of Python source; score on unseen sentences."""
    print("\n(b) Next tokens of the standard library's Python source\n")
    bunch = load_python_tokens()
    X, y, groups = make_contexts(bunch.sequences, max_length=12)
    rng = np.random.default_rng(0)
    lines = np.sort(rng.choice(len(bunch.sequences), size=3000, replace=False))
    chosen = np.isin(groups, lines)
    X, y, groups = X[chosen], y[chosen], groups[chosen]
    train, test = next(GroupShuffleSplit(1, test_size=0.25, random_state=0).split(X, y, groups))
    X_train, y_train = X[train], y[train]
    # Unseen: contexts that the model cannot tell from a training one are left out.
    seen = {(s[-1], tuple(sorted(s))) for s in X_train}
    unseen = np.array([(s[-1], tuple(sorted(s))) not in seen for s in X[test]])
    X_test, y_test = X[test][unseen], y[test][unseen]
    print(
        f"{len(bunch.modules)} modules, {len(lines)} logical lines; contexts of up to 12 tokens: "
        f"{len(X_train)} to train, {len(X_test)} unseen of {len(test)} to test"
    )
    search = GridSearchCV(
        NTPTransformerClassifier(collocation="last", step_schedule="invscaling", max_iter=500),
        {"step_size": [0.3, 1.0, 3.0, 10.0]},
        cv=UnseenSentenceKFold(3),
        n_jobs=2,
    )
    search.fit(X_train, y_train)
    for step_size, mean in zip(
        search.cv_results_["param_step_size"], search.cv_results_["mean_test_score"], strict=True
    ):
        print(f"  step_size={step_size}: accuracy {mean:.4f} on unseen sentences, 3 folds")
    print(f"chosen: step_size={search.best_params_['step_size']}")
    print(
        f"held-out accuracy, unseen sentences: transformer {search.score(X_test, y_test):.4f}, "
        f"bigram {bigram_accuracy(X_train, y_train, X_test, y_test):.4f}"
    )


def main():
    """Run both parts."""
    argparse.ArgumentParser("python -m sklntp", description=__doc__).parse_args()
    start = time.perf_counter()
    print(
        f"sklntp {sklntp.__version__}, scikit-learn {sklearn.__version__}, "
        f"Python {sys.version.split()[0]}\n"
    )
    paper_experiment()
    python_source()
    print(f"\n{time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()

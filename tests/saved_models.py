"""The fitted estimators that every release leaves in tests/saved, for later ones to load.

``python tests/saved_models.py`` writes those of the running version, with the oldest numpy and
scikit-learn that are supported: files of a newer numpy name modules that an older one lacks.
"""

import pickle
from pathlib import Path

import joblib
import numpy as np

from sklntp import NTPTransformerClassifier, __version__
from sklntp.preprocessing import NGramTokens, PositionTagger

SAVED = Path(__file__).parent / "saved"
X = [["a"], ["b"], ["c"], ["a", "b"], ["a", "b", "c"], ["b", "c"]]
Y = ["b", "c", "a", "b", "b", "c"]
NEW = [["a", "a", "b"], ["z", "c"], ["c", "b", "c"]]


def estimators():
    """name -> a fitted estimator: its steps, an entry per pair, a dense W_ov, counts, columns."""
    small = {"step_size": 0.1, "max_iter": 20}
    return {
        "two stages": NTPTransformerClassifier(**small, track_alignment=True).fit(X, Y),
        "joint": NTPTransformerClassifier(stages=("ov", "joint"), **small).fit(X, Y),
        "counts": NTPTransformerClassifier(
            smoothing="kneser-ney", attention_start=0.5, stages=("ov",)
        ).fit(X, Y),
        "table": NTPTransformerClassifier(**small).fit(
            np.array([[0, 1], [1, 2], [2, 0]]), [1, 2, 0]
        ),
        "n-grams": NGramTokens(max_n=2).fit(X),
        "positions": PositionTagger(max_distance=1).fit(X),
    }


def main():
    import skops.io

    SAVED.mkdir(exist_ok=True)
    fitted, path = estimators(), SAVED / f"{__version__}.pickle"
    path.write_bytes(pickle.dumps(fitted, protocol=4))
    joblib.dump(fitted, path.with_suffix(".joblib"), compress=9)
    skops.io.dump(fitted, path.with_suffix(".skops"), compression=8)  # ZIP_DEFLATED


if __name__ == "__main__":
    main()

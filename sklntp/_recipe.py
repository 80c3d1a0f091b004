"""The recommended pipeline for real sequences, in one call."""

from sklearn.pipeline import Pipeline

from sklntp._classifier import NTPTransformerClassifier
from sklntp.preprocessing import ContextWindow, NGramTokens, PositionTagger


def make_next_token_pipeline(
    *,
    max_length=20,
    max_n=2,
    min_count=1,
    max_distance=6,
    alpha=1.0,
    attention_start=1.0,
    max_iter=300,
    n_jobs=None,
):
    """Make the recommended pipeline for click-streams, event logs, letters and words.

    The model stays that of :class:`~sklntp.NTPTransformerClassifier`; position and history become
    tokens of their own. The steps are

    - "window": the last `max_length` tokens, a start token in front of shorter contexts;
    - "ngrams": the n-grams of up to `max_n` tokens that end the context, as tokens beside the
      others;
    - "positions": the last `max_distance` tokens also as x@0, x@1, ...;
    - "classifier": W_ov starts as logarithms of counts with Kneser-Ney smoothing, W_kq at
      `attention_start`, then both are trained together by L-BFGS with a penalty `alpha` on the
      distance from there.

    Parameters
    ----------
    max_length : int, default=20
        Tokens of a context, the start token counted.

    max_n : int, default=2
        Length of the longest n-gram; 1: none.

    min_count : int, default=1
        Contexts that an n-gram ends in training, at least. 2 keeps W_ov smaller where there are
        many tokens.

    max_distance : int, default=6
        How many of the last tokens are told apart by their positions.

    alpha : float, default=1.0
        Strength of the penalty.

    attention_start : float, default=1.0
        How much the last token and long n-grams are attended to at the start.

    max_iter : int, default=300
        Iterations of L-BFGS.

    n_jobs : int, default=None
        Threads of the classifier.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Not fitted. `fit` takes contexts and their next tokens, for example those of
        :func:`~sklntp.preprocessing.make_contexts`.
    """
    return Pipeline(
        [
            ("window", ContextWindow(max_length, start_token="<s>")),
            ("ngrams", NGramTokens(max_n, min_count)),
            ("positions", PositionTagger(max_distance)),
            (
                "classifier",
                NTPTransformerClassifier(
                    stages=("ov", "joint"),
                    solver="lbfgs",
                    max_iter=max_iter,
                    alpha=alpha,
                    smoothing="kneser-ney",
                    attention_start=attention_start,
                    collocation="context",
                    n_jobs=n_jobs,
                ),
            ),
        ]
    )

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
        Tokens of a context, the start token counted. A context of fewer is taken to begin where
        its sequence does: cut contexts to this length or more, if at all.

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

    Notes
    -----
    Measured by ``benchmarks/real.py`` on five files of 20,000 to 40,000 pairs, mean log-loss on
    held-out sequences over three splits, beside the best interpolated n-gram (Kneser-Ney or
    Witten-Bell, order by validation): help-desk tickets 0.497 (0.497), loan applications 0.384
    (0.401), pages of msnbc.com 1.227 (1.279), letters of names 1.975 (2.005), words of Shakespeare
    4.282 (4.302); accuracy was at or above that of the n-gram on all. A search on the training
    sequences chose the settings: the defaults on pages, with them `alpha` 0.03 or 0.1 on loan
    applications, ``max_n=4, attention_start=0`` on letters, ``max_n=1, max_distance=2, alpha=3`` on
    words. Search these; the page on real sequences in the documentation says how.

    It says why: ``pipeline[-1].contributions(pipeline[:-1].transform(X))`` has what each token of
    ``pipeline[:-1].transform(X)`` adds to the logit of the predicted class.

    Where sequences end is learned from a token of your own at their ends, such as "<END>". What
    they begin with is not: no context stands before the first token.

    Examples
    --------
    >>> from sklntp import make_next_token_pipeline
    >>> from sklntp.preprocessing import make_contexts
    >>> visits = [["home", "list", "item", "cart"], ["home", "item", "list", "home"]] * 5
    >>> X, y, groups = make_contexts(visits)
    >>> pipeline = make_next_token_pipeline().fit(X, y)
    >>> pipeline.predict([["home", "list"], ["home", "item", "list"]])
    array(['item', 'home'], dtype='<U4')
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
                    n_jobs=n_jobs,
                ),
            ),
        ]
    )

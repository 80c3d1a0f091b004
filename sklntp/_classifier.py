"""The estimator: validate, encode, run the stages, unpack."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from sklntp._callbacks import CallbackSupportMixin, fit_callbacks
from sklntp._collocation import COLLOCATION_MODES
from sklntp._dataset import build_dataset
from sklntp._doc_link import DocLink
from sklntp._fitted import FittedMatrices
from sklntp._fitted_predictions import FittedPredictions
from sklntp._max_margin import MaxMarginError
from sklntp._model import Model, starting_model
from sklntp._ngd import StepSizes
from sklntp._progress import ProgressLines
from sklntp._saving import VersionedState
from sklntp._sequences import short, store_features, token_array
from sklntp._stages import check_joint
from sklntp._training import Plan, Training

_STAGES = [
    ("ov", "kq"),
    ("ov",),
    ("kq",),
    ("joint",),
    ("ov", "joint"),
    ("ov", "kq", "joint"),
]
# A matrix then has a norm of at most 1e302, and sums of its entries stay in the range of float64.
_LARGEST = {Real: 1e290, Integral: 10**12}  # step_size, max_iter


class NTPTransformerClassifier(
    DocLink,
    VersionedState,
    CallbackSupportMixin,
    ClassifierMixin,
    FittedPredictions,
    FittedMatrices,
    BaseEstimator,
):
    """One-layer transformer for next-token prediction, trained with normalized gradient descent.

    For a sentence with distinct tokens x, c_x times each, and last token (query) q::

        score s_x = W_kq[x, q],     attention phi_x = c_x exp(s_x) / sum_u c_u exp(s_u),
        logits z = sum_x phi_x W_ov[:, x],     p(next | sentence) = softmax(z)

    Tokens have orthonormal embeddings and there is no positional encoding: the model sees of a
    sentence its last token and how often each token occurs. Training is Algorithm 1 of [1]_: two
    stages of normalized gradient descent from zero, W <- W - eta G / ||G||_F, first W_ov on the
    collocation (which token is followed by which), then W_kq on all sentences with W_ov fixed.

    Parameters
    ----------
    stages : tuple of {"ov", "kq", "joint"}, default=("ov", "kq")
        ``("ov", "kq")`` is the paper; ``("ov",)`` leaves attention uniform; ``("kq",)`` needs
        ``warm_start=True`` and a fitted W_ov; ``("joint",)`` trains both matrices at once, with
        one norm over both; ``("ov", "joint")`` and ``("ov", "kq", "joint")`` fine-tune. The joint
        stage holds W_ov dense.
        After long first stages attention is saturated, and the joint stage may find no gradient:
        give the first two few or small steps.

    solver : {"ngd", "lbfgs", "max_margin"}, default="ngd"
        "ngd": normalized gradient descent. "lbfgs": L-BFGS on the loss plus a penalty `alpha`, for
        data that are not realizable: it finds the minimum that descent with constant steps
        circles. "max_margin" takes no iterations: each matrix is its max-margin reference, scaled
        to the norm that normalized gradient descent reaches on realizable data, the sum of its
        steps. The reference knows which next tokens occur, not how often: it is for data that are
        realizable or nearly so. Not with "joint".

    step_size : float or tuple of float, default=0.2
        Step size eta > 0, one for all stages or one per stage; "lbfgs" finds its own.

    step_schedule : {"constant", "invscaling", "linear"}, default="constant"
        The t-th of T steps, t = 0, 1, ..., is eta; eta / sqrt(t + 1) with "invscaling"; or
        eta (1 - t / T) with "linear". Decaying steps reach the optimum of conflicting data, which
        constant ones circle; in all they go 2 eta sqrt(T) and eta T / 2 far instead of eta T, so
        they need a larger `step_size`. Only with "ngd".

    max_iter : int or tuple of int, default=1000
        Steps per stage. Reaching it is no failure: on separable data the norm grows for ever.

    alpha : float, default=0.0
        Strength of the L2 penalty alpha / (2 n) ||W - W_0||_F^2 that "lbfgs" adds to the loss of
        each stage; W_0 is what `smoothing` and `attention_start` say, zero by default, and n the
        sample weight behind the loss (of the collocation's pairs in stage "ov", of the sentences
        in the others).

    smoothing : {"kneser-ney"} or None, default=None
        Closed form of stage "ov" in place of iterations: W_ov[:, x] is the logarithm of the next
        tokens' probabilities after x, from counts under the collocation with interpolated modified
        Kneser-Ney smoothing. An n-gram token of :class:`~sklntp.preprocessing.NGramTokens` backs
        off to the n-gram without its oldest token, and at last to the token tagged x@0, or else
        plain; all other tokens to the number of distinct queries that a next token has. The page on
        real sequences in the documentation has the formula.

    attention_start : float, default=0.0
        Where W_kq starts: W_kq[x, q] is `attention_start` times k for an n-gram token x of k
        tokens, times 1 for a token tagged x@0 and for x = q, and 0 otherwise. Large values attend
        to the longest n-gram.

    collocation : {"auto", "single", "last", "context"}, default="auto"
        Which samples train W_ov. "single": one-token sentences, each token counting once (the
        paper). "last": (last token, next token) of every sentence, by weight. "context": (each
        distinct token, next token) of every sentence, by weight. "auto": with `smoothing`
        "context"; else "single" if every token of X has a one-token sentence, else "last".
        ``collocation_mode_`` tells. Contexts cut from sequences have one-token sentences too, the
        beginnings: say "last" or "context" there.

    vocabulary : sequence of distinct tokens, default=None
        Tokens to keep, in this order; others are unknown, in ``fit`` too. If it holds every next
        token, ``classes_`` is the sorted vocabulary. None: the sorted tokens of X. Leave it unset
        with int tokens inside meta-estimators that refit on int codes of y.

    handle_unknown : {"orthogonal", "error"}, default="orthogonal"
        "orthogonal": an unknown token has an embedding orthogonal to all others; it scores 0,
        votes for nothing, and as query spreads attention by count; a sentence of unknown tokens
        only has equal probabilities. "error": it is refused.

    track_alignment : bool, default=False
        Record at every step the cosine and distance to the max-margin reference and the training
        accuracy.

    warm_start : bool, default=False
        Continue each stage from its own matrix, history and schedule. Vocabulary and classes must
        be the same.

    early_stopping : bool, default=False
        Hold out some contexts, watch their loss, stop a stage when it no longer falls, and keep
        the weights at its lowest. All copies of one context are held out together.

    validation_fraction : float, default=0.1
        Share of the distinct contexts to hold out with `early_stopping`. Under the collocation
        "single" one-token sentences are never held out.

    n_iter_no_change : int, default=10
        Iterations without a fall of more than `tol` after which a stage stops: of the held-out
        loss with `early_stopping`, else of the objective with "lbfgs". "ngd" without early stopping
        takes all its steps, as in the paper.

    tol : float, default=1e-4
        See `n_iter_no_change`; in nats per sentence.

    random_state : int, RandomState instance or None, default=None
        Which contexts are held out.

    n_jobs : int, default=None
        Threads over the blocks of a step; results are the same for any number. None: 1 unless in a
        ``joblib.parallel_config`` context; -1: all processors.

    verbose : int, default=0
        1: some ten lines per stage; 2: one per step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Next tokens, sorted.

    vocabulary_ : ndarray of shape (n_tokens,)
        Tokens known in sentences.

    collocation_mode_ : {"single", "last", "context"}
        The collocation in use.

    collocation_ : dict of dict of float
        token -> next token -> share.

    coef_ov_ : ndarray of shape (n_classes, n_tokens)
        W_ov[class, token], built on access.

    coef_kq_ : ndarray of shape (n_tokens, n_tokens)
        W_kq[key token, query token], built on access.

    sparse_coef_ov_ : csr_array of shape (n_classes, n_tokens)
        W_ov minus ``base_ov_``.

    base_ov_ : ndarray of shape (n_tokens,)
        The value that all classes without an entry share in each column of W_ov.

    sparse_coef_kq_ : csr_array of shape (n_tokens, n_tokens)
        W_kq minus ``base_kq_``.

    base_kq_ : ndarray of shape (n_tokens,)
        The value of W_kq[x, q] for every known query q without an entry; zero unless
        `attention_start` says otherwise.

    max_margin_coef_ov_ : ndarray of shape (n_classes, n_tokens)
        The minimum-norm W with (e_n(x) - e_v)^T W x >= 1 for every v other than n(x), to which
        the direction of W_ov converges; on access.

    max_margin_coef_kq_ : ndarray of shape (n_tokens, n_tokens)
        The minimum-norm W with (x - x')^T W q >= 1 for every x above x' under q that meet in a
        sentence, to which the direction of W_kq converges; solved on access, with certificate.

    convergence_ : dict of dict
        stage -> "loss", "log_loss", "norm", "cosine", "dist", "accuracy" (1-D arrays of n + 1
        entries after n steps, the starting point first; NaN where not tracked or, for cosine and
        dist, where a matrix is zero), with `early_stopping` "validation_loss", and "stop_reason":
        "max_iter", "zero gradient", "early stopping", "converged" (the objective no longer falls),
        "no descent" (the line search of "lbfgs" finds nothing lower), "callback", "interrupted"
        (Ctrl-C), "not reached" (a stage after one of these two: no entries), "max_margin" or
        "smoothing".
        For "joint", norm, cosine and dist end in _ov and _kq. The loss is without the penalty.

    loss_curve_ : ndarray
        The losses of all stages, one after the other.

    n_iter_ : ndarray of int of shape (n_stages,)
        Steps of the last call, per stage; 0 where a stage stopped at once.

    n_features_in_ : int
        The length of the sentences, if all have the same.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names, if X is a DataFrame with one token per column.

    References
    ----------
    .. [1] R. Huang, Y. Liang, J. Yang, "Non-asymptotic Convergence of Training Transformers for
       Next-token Prediction", NeurIPS 2024, arXiv:2409.17335.

    Examples
    --------
    >>> from sklntp import NTPTransformerClassifier
    >>> X = [["a"], ["b"], ["c"], ["a", "b"]]
    >>> clf = NTPTransformerClassifier().fit(X, ["b", "c", "a", "b"])
    >>> clf.predict([["a", "a", "b"]])
    array(['b'], dtype='<U1')
    >>> clf.attention([["a", "b"]])[0].round(3)
    array([1., 0.])
    """

    _parameter_constraints = {
        "stages": [tuple, list],
        "solver": [StrOptions({"ngd", "lbfgs", "max_margin"})],
        "step_size": [Interval(Real, 0, None, closed="neither"), tuple, list],
        "step_schedule": [StrOptions({"constant", "invscaling", "linear"})],
        "max_iter": [Interval(Integral, 1, None, closed="left"), tuple, list],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "smoothing": [StrOptions({"kneser-ney"}), None],
        "attention_start": [Interval(Real, -1e6, 1e6, closed="both")],
        "collocation": [StrOptions(set(COLLOCATION_MODES))],
        "vocabulary": ["array-like", None],
        "handle_unknown": [StrOptions({"orthogonal", "error"})],
        "track_alignment": ["boolean"],
        "warm_start": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        stages=("ov", "kq"),
        solver="ngd",
        step_size=0.2,
        step_schedule="constant",
        max_iter=1000,
        alpha=0.0,
        smoothing=None,
        attention_start=0.0,
        collocation="auto",
        vocabulary=None,
        handle_unknown="orthogonal",
        track_alignment=False,
        warm_start=False,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.stages = stages
        self.solver = solver
        self.step_size = step_size
        self.step_schedule = step_schedule
        self.max_iter = max_iter
        self.alpha = alpha
        self.smoothing = smoothing
        self.attention_start = attention_start
        self.collocation = collocation
        self.vocabulary = vocabulary
        self.handle_unknown = handle_unknown
        self.track_alignment = track_alignment
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Train on sentences and their next tokens.

        Parameters
        ----------
        X : array-like of sequences
            Sentences: a list, object array, Series or Arrow array of sequences of str or int
            tokens, of any lengths from 1; or a 2-D array or DataFrame, each row a sentence.

        y : array-like of shape (n_sentences,)
            The next token of each sentence.

        sample_weight : array-like of shape (n_sentences,), default=None
            Non-negative weights; a weight of k equals k copies. Without `smoothing` and `alpha`
            only their ratios matter; these read them as counts, so weights far below 1 leave
            little but the prior.

        Returns
        -------
        self : NTPTransformerClassifier
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            On invalid input or parameters, naming the sentence or the parameter.

        KeyboardInterrupt
            On Ctrl-C, after the estimator was left usable: as it was at the last complete step,
            with stages not reached at zero (or, with `warm_start`, as they were). `convergence_`
            says so by the reasons "interrupted" and "not reached". Before the data are read there
            is nothing to leave.
        """
        stages = self._check_stages()
        self._check_solver()
        step_size = self._per_stage("step_size", len(stages), Real)
        max_iter = self._per_stage("max_iter", len(stages), Integral)
        callbacks = fit_callbacks(self, len(stages), X, y, sample_weight)
        data = build_dataset(
            X,
            y,
            sample_weight,
            collocation=self._collocation(),
            vocabulary=self.vocabulary,
            handle_unknown=self.handle_unknown,
            held_out=self.validation_fraction if self.early_stopping else 0.0,
            random_state=self.random_state,
            estimator=self,
        )
        if "joint" in stages:
            check_joint(len(data.vocabulary), len(data.classes))
        origin = starting_model(data, self.smoothing, self.attention_start)
        start = self._continued(stages, data) or origin
        plan = self._plan(stages, step_size, max_iter, start)
        lines = [ProgressLines(self.verbose)] if self.verbose else []
        training = Training(data, start, plan, origin=origin, watchers=[*lines, *callbacks])
        for callback in callbacks:
            callback.follow(lambda: self._attributes(data, training.so_far("callback")))
        try:
            self._store(data, training.run())
        except MaxMarginError as error:
            name = "track_alignment=True" if self.track_alignment else "solver='max_margin'"
            raise ValueError(f"{name} needs a certified reference: {error}") from error
        except KeyboardInterrupt:
            self._store(data, training.so_far())
            raise
        for callback in callbacks:
            callback.finish()
        return self

    def _check_stages(self):
        stages = tuple(self.stages)
        if not all(isinstance(stage, str) for stage in stages) or stages not in _STAGES:
            raise ValueError(f"stages must be one of {_STAGES}; got {short(self.stages)}.")
        if self.solver == "max_margin" and "joint" in stages:
            raise ValueError('solver="max_margin" has no reference for stages with "joint".')
        return stages

    def _collocation(self):
        """The parameter; n-grams and tags get their counts from all sentences that hold them."""
        if self.collocation == "auto" and self.smoothing is not None:
            return "context"
        return self.collocation

    def _check_solver(self):
        """Refuse parameters that the solver has no use for."""
        lbfgs, closed = self.solver == "lbfgs", self.solver == "max_margin"
        for name, off, unused in (
            ("alpha", 0.0, not lbfgs),
            ("step_schedule", "constant", lbfgs),
            ("smoothing", None, closed),
            ("attention_start", 0.0, closed),
            ("early_stopping", False, closed),
        ):
            value = getattr(self, name)
            if unused and value != off:
                raise ValueError(f"{name}={value!r} has no meaning with solver={self.solver!r}.")

    def _per_stage(self, name, n_stages, kind):
        """A parameter that may be one number or a tuple with one per stage, as a list."""
        value = getattr(self, name)
        values = list(value) if isinstance(value, (tuple, list)) else [value] * n_stages
        if len(values) != n_stages:
            raise ValueError(
                f"{name} must be one number or one per stage ({n_stages}); got {short(value)}."
            )
        for number in values:
            good = isinstance(number, kind) and not isinstance(number, bool)
            if not (good and 0 < number <= _LARGEST[kind]):
                what = "positive number" if kind is Real else "positive integer"
                raise ValueError(
                    f"{name} must be a {what}, at most {_LARGEST[kind]:.0e}; got {short(value)}."
                )
        return values

    def _continued(self, stages, data):
        """The fitted model to continue with `warm_start`, or None."""
        fitted = self.warm_start and hasattr(self, "classes_")
        if stages == ("kq",) and not fitted:
            first = "" if hasattr(self, "classes_") else 'fit with stages=("ov",) first, then '
            raise ValueError(
                f'stages=("kq",) trains W_kq on a fitted W_ov: {first}'
                'set_params(stages=("kq",), warm_start=True) and fit again.'
            )
        if self.smoothing is not None and not fitted and "ov" not in stages:
            raise ValueError(
                f'smoothing={self.smoothing!r} is the closed form of stage "ov", which stages='
                f"{short(stages)} leave out: use ({', '.join(map(repr, ('ov', *stages)))})."
            )
        if not fitted:
            return None
        vocabulary = token_array(data.vocabulary)
        for name, now in (("vocabulary_", vocabulary), ("classes_", data.classes)):
            if not np.array_equal(getattr(self, name), now):
                raise ValueError(
                    f"warm_start=True needs the same {name} as in the earlier fit, which had "
                    f"{len(getattr(self, name))} entries; this fit has {len(now)}, or others. Fix "
                    "both with the parameter vocabulary, or set warm_start=False."
                )
        if "ov" in stages and len(self.convergence_.get("joint", {}).get("loss", ())):
            raise ValueError(
                'stages with "ov" cannot continue after "joint", which leaves W_ov without the '
                'structure of stage 1: use stages=("joint",) or ("kq",), or warm_start=False.'
            )
        history = {stage: dict(curves) for stage, curves in self.convergence_.items()}
        reasons = {stage: curves.pop("stop_reason") for stage, curves in history.items()}
        history = {
            stage: {name: curve.tolist() for name, curve in curves.items()}
            for stage, curves in history.items()
        }
        return Model(self._output(), self._attention(), history, reasons)

    def _plan(self, stages, step_size, max_iter, start):
        """How to train, the steps of each stage after those already taken."""
        steps = []
        for stage, eta, n in zip(stages, step_size, max_iter, strict=True):
            done = max(len(start.history.get(stage, {}).get("loss", ())) - 1, 0)
            done = 0 if self.solver == "max_margin" else done
            steps.append(StepSizes(float(eta), self.step_schedule, done, done + int(n)))
        return Plan(
            stages,
            steps,
            solver=self.solver,
            alpha=self.alpha,
            smoothing=self.smoothing,
            early_stopping=self.early_stopping,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            track=self.track_alignment,
            n_jobs=self.n_jobs,
        )

    def _store(self, data, model):
        """Unpack the model into fitted attributes."""
        attributes = self._attributes(data, model)
        store_features(self, data.features)
        vars(self).update(attributes)  # at once: an interruption finds all of them, or none

    def _attributes(self, data, model):
        """The fitted attributes that a model makes: arrays, dicts and strings only."""
        convergence = {
            stage: {name: np.array(curve, dtype=float) for name, curve in curves.items()}
            | {"stop_reason": model.stop_reason[stage]}
            for stage, curves in model.history.items()
        }
        pairs = data.collocation
        return {
            **data.features,
            "classes_": data.classes,
            "vocabulary_": token_array(data.vocabulary),
            "collocation_mode_": data.mode,
            "n_iter_": np.array(model.n_iter, dtype=int),
            "convergence_": convergence,
            "loss_curve_": np.concatenate([curves["loss"] for curves in convergence.values()]),
            "base_ov_": model.output.base,
            "_ov_offsets": model.output.offsets,
            "_ov_classes": model.output.classes,
            "_ov_value": model.output.value,
            "base_kq_": model.attention.base,
            "_kq_key": model.attention.key,
            "_kq_value": model.attention.value,
            "_pairs": {"token": pairs.pair_token, "class": pairs.classes, "share": pairs.share},
            "_order_key": data.orders.key,
            "_max_margin_kq": None,
        }

    def __getstate__(self):
        """Without the cached reference, which the stored pairs determine."""
        state = super().__getstate__()
        if "_max_margin_kq" in state:
            state["_max_margin_kq"] = None
        return state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

"""scikit-learn's callbacks, since its version 1.9; watchers of `Training`.

The tasks form a tree: "fit" has one task per stage, and a stage one per step.
"""

import warnings

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:
        """Stands where scikit-learn has no callbacks; fit is the same without them."""

        def set_callbacks(self, *callbacks):
            """Warn that callbacks need scikit-learn 1.9, and go on without them.

            Parameters
            ----------
            *callbacks : callback instances
                Not used.

            Returns
            -------
            self : estimator instance
                The estimator itself.
            """
            if callbacks:
                warnings.warn("Callbacks need scikit-learn 1.9; fit ignores them.", stacklevel=2)
            return self


class FitCallbacks:
    """Calls the hooks of the callbacks that are set on an estimator.

    Parameters
    ----------
    estimator : NTPTransformerClassifier
    n_stages : int
    X, y, sample_weight : array-like
        As given to `fit`; passed on to the callbacks.
    """

    def __init__(self, estimator, n_stages, X, y, sample_weight):
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._attributes = None
        self._fit = estimator._init_callback_context(max_subtasks=n_stages)
        self._begin(self._fit)

    def follow(self, attributes):
        """From here on callbacks may ask for a fitted estimator, which these attributes make.

        Parameters
        ----------
        attributes : callable
            ``attributes() -> dict``, the fitted attributes as if `fit` had stopped now.
        """
        self._attributes = attributes

    def begin(self, stage, n_steps):
        self._n_steps = n_steps
        self._stage = self._fit.subcontext(task_name=f"stage {stage}", max_subtasks=n_steps)
        self._begin(self._stage)
        self._step = None

    def point(self, stage, t, record):
        if t and self._end(self._step):
            self._step = None
            return True
        self._step = self._stage.subcontext(task_name="step") if t < self._n_steps else None
        if self._step is not None:
            self._begin(self._step)
        return False

    def end(self, stage, stop_reason):
        if self._step is not None:  # begun, and never taken: nothing is said of it
            self._step.call_on_fit_task_end(estimator=self._given["estimator"])
        return self._end(self._stage)

    def finish(self):
        """After the last stage."""
        self._end(self._fit)

    def _begin(self, context):
        context.call_on_fit_task_begin(**self._given, reconstruction_attributes=self._attributes)

    def _end(self, context):
        return context.call_on_fit_task_end(
            **self._given, reconstruction_attributes=self._attributes
        )


def fit_callbacks(estimator, n_stages, X, y, sample_weight):
    """A list with the `FitCallbacks` of an estimator; empty where no callback is set."""
    if not getattr(estimator, "_skl_callbacks", ()):
        return []
    return [FitCallbacks(estimator, n_stages, X, y, sample_weight)]

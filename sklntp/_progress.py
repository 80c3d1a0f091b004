"""Lines that tell how training goes; watchers of `Training`."""

import time


class ProgressLines:
    """Print one line per point, all in one format; the last line of a stage says why it stopped.

    Parameters
    ----------
    verbose : int
        1: some ten lines per stage; 2: one per step.
    """

    def __init__(self, verbose):
        self.verbose = verbose

    def begin(self, stage, n_steps):
        self.n_steps, self.started = n_steps, time.perf_counter()
        self.every = 1 if self.verbose > 1 else max(1, n_steps // 10)

    def point(self, stage, t, record):
        shown = {k: v for k, v in record.items() if k.startswith("norm") or k.endswith("loss")}
        del shown["log_loss"]
        self.line = (
            f"[NTPTransformerClassifier] stage {stage}, step {t}/{self.n_steps}, "
            f"{time.perf_counter() - self.started:.1f} s, "
            + ", ".join(f"{name} {value:.6g}" for name, value in shown.items())
        )
        if t % self.every == 0 and t < self.n_steps:
            print(self.line)

    def end(self, stage, stop_reason):
        print(f"{self.line}, stop: {stop_reason}")

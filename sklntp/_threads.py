"""Threads over the blocks of one step."""

from concurrent.futures import ThreadPoolExecutor

from joblib import effective_n_jobs


class Threads:
    """A context manager that holds `n` threads, the caller's among them.

    joblib decides how many; its own threading backend looks for results every 10 ms, as long as a
    whole step takes.

    Parameters
    ----------
    n_jobs : int or None, default=None
        As everywhere in scikit-learn: None means 1 unless in a `joblib.parallel_config` context,
        -1 all processors.
    """

    def __init__(self, n_jobs=None):
        self.n = effective_n_jobs(n_jobs)
        self._pool = None

    def __enter__(self):
        if self.n > 1:
            self._pool = ThreadPoolExecutor(self.n - 1)
        return self

    def __exit__(self, *_):
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def map(self, function, items):
        """``[function(item, worker) for item in items]``, `worker` from 0 to n - 1.

        Which thread takes which item is left to chance, so results may depend on `worker` only
        through buffers that are overwritten. A thread starts without the caller's `np.errstate`.
        """
        n = min(self.n, len(items))
        if self._pool is None or n < 2:
            return [function(item, 0) for item in items]
        results = [None] * len(items)
        pending = iter(range(len(items)))  # shared: each thread takes the next

        def work(worker):
            for i in pending:
                results[i] = function(items[i], worker)

        others = [self._pool.submit(work, worker) for worker in range(1, n)]
        work(0)
        for other in others:
            other.result()
        return results

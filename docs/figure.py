"""Draw the figure of the README: `python docs/figure.py docs/paper_figure.png`."""

import sys

import matplotlib

matplotlib.use("agg")

from sklntp import NTPTransformerClassifier  # noqa: E402 - after the backend is chosen
from sklntp.datasets import make_realizable_ntp  # noqa: E402
from sklntp.inspection import ConvergenceDisplay  # noqa: E402

data = make_realizable_ntp(20, 100, max_length=5, random_state=0)
clf = NTPTransformerClassifier(max_iter=(500, 5000), track_alignment=True).fit(data.X, data.y)
ConvergenceDisplay.from_estimator(clf).figure_.savefig(sys.argv[1], dpi=90)

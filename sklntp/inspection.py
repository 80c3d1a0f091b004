"""Displays of a fitted estimator: its training, its attention, its partial orders.

They follow scikit-learn's displays: ``from_estimator`` computes and draws, ``plot`` draws again.
Drawing needs matplotlib, ``pip install sklntp[plot]``.
"""

from sklntp._attention_display import AttentionDisplay
from sklntp._convergence_display import ConvergenceDisplay
from sklntp._order_display import PartialOrderDisplay

__all__ = ["AttentionDisplay", "ConvergenceDisplay", "PartialOrderDisplay"]

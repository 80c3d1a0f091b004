"""Measures of a training run and of what it learned."""

from sklntp._alignment import Alignment, alignment
from sklntp._generalization import GeneralizationReport, generalization_report
from sklntp._rates import ConvergenceRate, DirectionRate, RateFit, convergence_rate
from sklntp._scorers import neg_log_loss, perplexity, top_k_accuracy

__all__ = [
    "Alignment",
    "ConvergenceRate",
    "DirectionRate",
    "GeneralizationReport",
    "RateFit",
    "alignment",
    "convergence_rate",
    "generalization_report",
    "neg_log_loss",
    "perplexity",
    "top_k_accuracy",
]

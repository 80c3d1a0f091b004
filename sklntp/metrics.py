"""Measures of a training run and of what it learned."""

from sklntp._alignment import Alignment, alignment
from sklntp._generalization import GeneralizationReport, generalization_report
from sklntp._rates import ConvergenceRate, DirectionRate, RateFit, convergence_rate

__all__ = [
    "Alignment",
    "ConvergenceRate",
    "DirectionRate",
    "GeneralizationReport",
    "RateFit",
    "alignment",
    "convergence_rate",
    "generalization_report",
]

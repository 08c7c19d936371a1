"""The audit of what is learned from everybody's data together: with and without one person.

>>> from nearveil.audit.claim import Claim
>>> from nearveil.mechanisms.fitting import FitPlan
>>> from nearveil.privacy.guarantee import Notion
>>> from nearveil.region import named_region
>>> region = named_region("san-francisco")
>>> fit = AnswersFit(region, FitPlan(centres=2, rounds=1), budget=3.0)
>>> claim = Claim(Notion.CENTRAL, epsilon=1.0, delta=0.0, text="three answers with noise of scale 3")
>>> audit_fit(fit, claim, worst_case_data(region, 4), region, fits=1000, seed=1).verdict
<Verdict.CONSISTENT: 'consistent'>
"""

from nearveil.audit.fit_audit.audit import FitReport, audit_fit
from nearveil.audit.fit_audit.data_pairs import DataPair, worst_case_data
from nearveil.audit.fit_audit.fitting import Fit, KnowingFit
from nearveil.audit.fit_audit.own_fits import AnswersFit, intervals_fit
from nearveil.audit.fit_audit.witness import FitWitness, fit_witness_from_json, recheck_fit

__all__ = [
    "AnswersFit",
    "DataPair",
    "Fit",
    "FitReport",
    "FitWitness",
    "KnowingFit",
    "audit_fit",
    "fit_witness_from_json",
    "intervals_fit",
    "recheck_fit",
    "worst_case_data",
]

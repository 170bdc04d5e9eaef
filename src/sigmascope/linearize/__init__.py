"""Networks with fewer activations: affine maps in place of those that are hardly used.

An activation whose output is nearly an affine function of its input can be replaced by that
function, so that the network becomes shallower at almost no cost.

>>> import torch
>>> from sigmascope import linearize
>>> _ = torch.manual_seed(0)
>>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
>>> plan = linearize.plan(network, torch.randn(256, 4), budget=1)
>>> linearize.apply(network, plan)[1]
Affine(8, axis=-1)
"""

from __future__ import annotations

from sigmascope.linearize.budgets import Elements, LossRise
from sigmascope.linearize.criteria import CRITERIA, Criterion
from sigmascope.linearize.evidence import Evidence
from sigmascope.linearize.fit_options import FitOptions
from sigmascope.linearize.fitting import fit
from sigmascope.linearize.folding import FoldOptions, fold
from sigmascope.linearize.folding.result import Cost, Folded
from sigmascope.linearize.judging import Judgment
from sigmascope.linearize.linearization import CurvePoint, Folding, Linearization, Tuning
from sigmascope.linearize.loading import load
from sigmascope.linearize.maps import Affine
from sigmascope.linearize.planning import PlanOptions, apply, plan
from sigmascope.linearize.result import Plan, PlannedSite
from sigmascope.linearize.saved import SavedNetwork, save
from sigmascope.linearize.split import Split
from sigmascope.linearize.tuned import Tuned, TunedEpoch, TuneSettings
from sigmascope.linearize.tuning import TuneOptions, tune

__all__ = [
    "CRITERIA",
    "Affine",
    "Cost",
    "Criterion",
    "CurvePoint",
    "Elements",
    "Evidence",
    "FitOptions",
    "FoldOptions",
    "Folded",
    "Folding",
    "Judgment",
    "Linearization",
    "LossRise",
    "Plan",
    "PlanOptions",
    "PlannedSite",
    "SavedNetwork",
    "Split",
    "TuneOptions",
    "TuneSettings",
    "Tuned",
    "TunedEpoch",
    "Tuning",
    "apply",
    "fit",
    "fold",
    "load",
    "plan",
    "save",
    "tune",
]

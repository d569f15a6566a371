"""Prefixes of names that only sessions give to tensors."""

from __future__ import annotations

# What the functions `reserved...Prefix` are called after -> prefix.
PREFIXES = {
    "Gradient": "Gradient___",
    "UpdatedVar": "UpdatedVar___",
    "Accum": "Accum___",
    "Accl": "Accl___",
    "Accl1": "Accl1___",
    "Accl2": "Accl2___",
    "Accl3": "Accl3___",
    "Step": "Step___",
    "AcclToReduce": "AcclIntoReduce___",
    "AcclToUpdate": "AcclIntoUpdate___",
    "AcclFinalOut": "AcclOutOfAcclUpdate___",
    "FinalReducedGrad": "FinalReducedGradient___",
    "AdamUpdater": "AdamUpdater___",
    "LambR1Sq": "LambR1Sq___",
    "LambR2Sq": "LambR2Sq___",
    "Stashed": "Stashed___",
    "Restored": "Restored___",
    "LossScaling": "lossScaling_",
    "RandomSeed": "randomSeed___",
    "SeedModifier": "randomSeedModifier___",
    "RemoteArg": "RemoteArg___",
    "AutomaticLossScale": "AutomaticLossScaleProxy___",
}
_PAIRS = (
    *("WeightDecayScaleFactor0", "ScaledLearningRate0", "ScaledWeightDecay1"),
    *("ScaledLearningRate1", "DampeningScaleFactor1", "ScaledMomentum1", "LearningRate"),
    *("WeightDecay", "LossScaling", "MaxWeightNorm", "AdamBeta1", "AdamBeta2", "AdamEps", "Step"),
)
for _name in _PAIRS:
    _text = _name[0].lower() + _name[1:]
    PREFIXES[f"Default{_name}"] = f"{_text}___default___"
    PREFIXES[f"Specific{_name}"] = f"{_text}___specific___"

_OTHERS = (
    *("scaledLearningRate2___", "dampeningScaleFactor2___", "scaledMomentum2___"),
    *("sgdWeightDecay___", "sgdMomentum___", "adamGradientScaling___", "adaptiveAlpha___"),
    *("adaptiveEps___", "adaptiveMomentum___", "AdaptiveUpdater___", "Counter___"),
    *("anchorSum___", "anchorFinal___", "ConcatInit___", "ConstValue___", "cycleCount___"),
    *("GlobalNorm___", "Index___", "Init___", "Iterator___", "LoopCond___"),
    *("LossScalingRatio_", "PreviousLossScaling_", "lossScaleUpdateFactor"),
)
_ALL = (*PREFIXES.values(), *_OTHERS)


def is_reserved(name: str) -> bool:
    """Returns whether a name begins with a reserved prefix.

    Args:
        name: the name.
    """
    return name.startswith(_ALL)

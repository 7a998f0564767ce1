"""What training loops have in common: batches, metrics, progress, early stopping.

They are functions and values, no framework: the loop is the user's. Read `batches.py` first, then
`metrics.py`; docs/training.md is the guide.

Metrics take `predictions` and `labels`, in the order of `nn.losses` (scikit-learn takes labels
first). Predictions are logits `f32[..., C]`, the greatest of which counts, or classes `i32[...]`;
`labels` are `i32[...]` from 0 on, or bools. All work in compiled functions, which have to be told
how many `classes` there are if predictions are classes. Labels that are no class are a
`BoundsError` where they are known; else they are not counted. With `reduction="none"` there is a
number for each example. Shapes that do not fit are a `ShapeError`, floats in the place of classes
a `DtypeError`.
"""

from ..ir.lazy import listed as _listed
from .batches import batches as batches
from .metrics import (
    accuracy as accuracy,
    confusion_matrix as confusion_matrix,
    f1 as f1,
    precision as precision,
    recall as recall,
    roc_auc as roc_auc,
    top_k_accuracy as top_k_accuracy,
)
from .progress import progress as progress
from .running import EarlyStopping as EarlyStopping, Mean as Mean

__dir__ = _listed(__name__)

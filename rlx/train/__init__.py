"""What training loops have in common: batches, metrics, progress, early stopping.

They are functions and values, no framework: the loop is the user's. Read `batches.py` first, then
`metrics.py`; docs/training.md is the guide.
"""

from ..ir.lazy import listed as _listed
from .batches import Batches as Batches, batches as batches
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

"""Draw tokens from logits, each row by settings of its own, in compiled code.

A row's random numbers come from its seed and the number of the token alone, so a request gets the
same tokens alone and among others. Order and meaning are those of Hugging Face: penalties,
temperature, top-k, top-p of what is left, min-p.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import lax, nn, numpy as rnp, random
from ..ir.errors import AttributeValueError
from ..ir.record import field, record
from ..runtime.devices import default_device
from ..scipy.special import logsumexp
from ..trace import pytree
from ..trace.arguments import count_of, wrong
from ..trace.array_arguments import known_real
from ..trace.axes import integer
from ..transforms.jit.jit import jit
from ..transforms.vmap import vmap
from .steps import device_options

LEAST, GREATEST = -(2**31), 2**31 - 1
MOST = 3e38  # of a number of a setting, which becomes f32
WORD = 32  # bits of masks
ALL = np.uint32(2**WORD - 1)  # a word that allows its tokens
FEW = 4  # rows that are drawn at the same time
MOST_LISTED = 20  # tokens whose logarithms of probabilities are given beside the drawn one's


@record
class Sampling:
    """How tokens are drawn.

    - `temperature`: logits are divided by it; at 0 the likeliest token is taken.
    - `top_k`: the tokens at least as likely as the k-th; 0 for all.
    - `top_p`: the likeliest tokens that have this much probability together.
    - `min_p`: tokens at least this times as likely as the likeliest.
    - `repetition_penalty`: positive logits of tokens that came before, in the prompt too, are
      divided by it, negative ones multiplied.
    - `presence_penalty`, `frequency_penalty`: what is taken from logits of tokens that were drawn
      before, once and for each time.
    - `logit_bias`: what is added to the logits of some tokens, by their numbers.
    - `seed`: of the random numbers.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0

    @property
    def looks_back(self) -> bool:
        """Whether tokens that came before count."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)

    @property
    def is_plain(self) -> bool:
        """Whether the likeliest token is taken, whatever came before."""
        return not (self.temperature or self.looks_back or self.logit_bias)


NOT_NEGATIVE = (lambda x: x >= 0), "a number from 0 on"
POSITIVE = (lambda x: x > 0), "a number above 0"
FINITE = (lambda x: True), "a finite number"
RULES: dict[str, tuple[Callable[[float], bool], str]] = {
    "temperature": NOT_NEGATIVE,
    "top_p": ((lambda x: 0 < x <= 1), "a number above 0, at most 1"),
    "min_p": ((lambda x: 0 <= x <= 1), "a number from 0 to 1"),
    "repetition_penalty": POSITIVE,
    "presence_penalty": FINITE,
    "frequency_penalty": FINITE,
}
DTYPES = {**dict.fromkeys(RULES, "float32"), "top_k": "int32", "seed": "uint32"}


def checked(given: Sampling) -> Sampling:
    """The settings as numbers of the right kinds; others are refused."""
    found: dict[str, Any] = {
        "top_k": count_of("generate: top_k", given.top_k),
        "seed": count_of("generate: seed", given.seed, 0, 2**32 - 1),
    }
    for name, (is_right, wanted) in RULES.items():
        number = known_real(f"generate: {name}", getattr(given, name))
        if not abs(number) <= MOST or not is_right(float(np.float32(number))):
            raise AttributeValueError(f"generate: {name} is {number:g}", fix=f"use {wanted}")
        found[name] = number
    return Sampling(**found, logit_bias=_bias(given.logit_bias))


def _bias(given: Any) -> dict[int, float]:
    if not isinstance(given, Mapping):
        raise wrong("generate: logit_bias", given, "a dict", "give {token: number}")
    found = {}
    for token, value in given.items():
        number = known_real("generate: logit_bias", value)
        if not abs(number) <= MOST:
            raise AttributeValueError(
                f"generate: logit_bias has {number:g}",
                fix="use finite numbers: -100 forbids a token",
            )
        found[integer("generate: logit_bias: a token", token)] = number
    return found


class Drawn(NamedTuple):
    """A token for each row, and logarithms of probabilities."""

    tokens: list[int]
    logprobs: list[float]
    likeliest: list[dict[int, float]]

    def of(self, row: int) -> tuple[float, dict[int, float]]:
        """The logarithm of a row's token, and those of the likeliest ones."""
        return self.logprobs[row], self.likeliest[row] if self.likeliest else {}


class Settled:
    """The settings of some rows, as arrays.

    `masks` has for each row the tokens that are allowed, as bits of u32 words, or None for all.
    """

    def __init__(
        self, rows: Sequence[Sampling], masks: Sequence[np.ndarray | None] | None = None
    ) -> None:
        self._how = {
            name: np.array([getattr(row, name) for row in rows], dtype)
            for name, dtype in DTYPES.items()
        }
        most = max(len(row.logit_bias) for row in rows)
        self._ids = np.full((len(rows), max(most, 1)), GREATEST, "int32")  # no token
        self._added = np.zeros(self._ids.shape, "float32")
        for ids, added, row in zip(self._ids, self._added, rows, strict=True):
            ids[: len(row.logit_bias)] = list(row.logit_bias)
            added[: len(row.logit_bias)] = list(row.logit_bias.values())
        self._masks = masks or [None] * len(rows)
        no_masks = all(mask is None for mask in self._masks)
        self._is_plain = no_masks and all(row.is_plain for row in rows)
        self._mask: np.ndarray | None = None  # of all rows

    def draw(
        self,
        logits: Any,
        history: Any,
        start: Any,
        count: Any,
        is_listed: bool,
        device: str | None = None,
    ) -> Drawn:
        """Draw a token for each row on a `device`; other arguments are those of `draw`."""
        device = device or default_device()
        if self._is_plain and not is_listed:
            tokens, logprobs = (x.host().tolist() for x in _plain(device)(logits))
            return Drawn(tokens, logprobs, [])
        if self._mask is None:
            self._mask = self._bits(-(-logits.shape[1] // WORD))
        limits = {"ids": self._ids, "added": self._added, "mask": self._mask}
        code, listed = _compiled(device), np.array(is_listed)
        drawn = Drawn([], [], [])
        for rows in _parts((logits, history, start, count, self._how, limits)):
            found = [x.host().tolist() for x in code(*rows, listed)[: 4 if is_listed else 2]]
            drawn.tokens.extend(found[0])
            drawn.logprobs.extend(found[1])
            drawn.likeliest.extend(dict(zip(*x, strict=True)) for x in zip(*found[2:], strict=True))
        return drawn

    def _bits(self, words: int) -> np.ndarray:
        """The masks of all rows, of so many words."""
        mask = np.full((len(self._masks), words), ALL)
        for row, allowed in zip(mask, self._masks, strict=True):
            if allowed is not None:
                row[:] = allowed
        return mask


def _parts(rows: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Arrays of rows, of which the first has the logits, a few rows at a time.

    A draw takes ten times the memory of its logits. Where a part is no copy, it takes no longer.
    """
    logits, *others = rows
    if not isinstance(logits, np.ndarray) and logits.device != "cpu":
        yield rows
        return
    host = logits if isinstance(logits, np.ndarray) else logits.host()
    for first in range(0, len(host), FEW):
        yield pytree.map(lambda x: x[first : first + FEW], (host, *others))  # noqa: B023


@functools.cache
def _compiled(device: str) -> Any:
    """`draw` for any number of rows, on a device."""
    rows = {0: "rows"}
    sizes = {"logits": rows, "history": {0: "rows", 1: "times"}, "start": rows, "count": rows}
    biases = {0: "rows", 1: "biases"}
    limits = {"ids": biases, "added": biases, "mask": rows}
    return jit(
        draw,
        dynamic={**sizes, "how": dict.fromkeys(DTYPES, rows), "limits": limits},
        device=device,
        **device_options(device),
    )


@functools.cache
def _plain(device: str) -> Any:
    """`likeliest` for any number of rows, on a device."""
    return jit(likeliest, dynamic={"logits": {0: "rows"}}, device=device, **device_options(device))


def likeliest(logits: Any) -> tuple[Any, Any]:
    """What `draw` gives for rows without settings, in a tenth of the time to compile.

    f32[rows, vocabulary] gives the tokens, i32[rows], and the logarithms of their probabilities.
    """
    token = rnp.argmax(logits, -1).astype("int32")
    return token, _logprobs(logits, token, logsumexp(logits, -1, keepdims=True))


def _logprobs(logits: Any, token: Any, total: Any) -> Any:
    """The logarithm of the probability of each row's token."""
    return (rnp.take_along_axis(logits, token[:, None], -1) - total)[:, 0]


def draw(
    logits: Any,
    history: Any,
    start: Any,
    count: Any,
    how: dict[str, Any],
    limits: dict[str, Any],
    is_listed: Any,
) -> tuple[Any, Any, Any, Any]:
    """Draw a token for each row of `logits`, f32[rows, vocabulary].

    `history`, i32[rows, n], has the tokens before: `count` of them, from `start` on drawn ones.
    `how` has an array with a number for each row for each field of `Sampling`. `limits` are
    `ids` i32[rows, n], to whose logits `added` f32[rows, n] is added, and `mask`, bits of the
    tokens that are allowed, u32[rows, words]. Returns the tokens i32[rows] and the logarithms of
    their probabilities f32[rows], and, if `is_listed`, the same for the likeliest tokens of each
    row. Probabilities are those before all that `how` and `limits` say.
    """
    ids, added, mask = limits["ids"], limits["added"], limits["mask"]
    biased = lax.cond(rnp.any(added != 0), _with_bias, lambda x, *_: x, logits, ids, added)
    has_penalty = rnp.any(
        (how["repetition_penalty"] != 1)
        | (how["presence_penalty"] != 0)
        | (how["frequency_penalty"] != 0)
    )
    before = biased, history, start, count, how
    changed = lax.cond(has_penalty, _with_penalties, lambda x, *_: x, *before)
    is_masked = rnp.any(mask != ALL)
    changed = lax.cond(is_masked, _allowed, lambda x, *_: x, changed, mask)
    is_random = rnp.any(how["temperature"] > 0)
    noisy = lax.cond(is_random, _with_noise, lambda x, *_: x, changed, count - start, how)
    token = rnp.argmax(noisy, -1).astype("int32")
    total = logsumexp(logits, -1, keepdims=True)
    logprobs = _logprobs(logits, token, total)
    most = min(MOST_LISTED, logits.shape[-1])

    def listed(logits: Any) -> Any:
        values, tokens = lax.top_k(logits, most)
        return values, tokens.astype("int32")

    def nothing(logits: Any) -> Any:
        shape = (logits.shape[0], most)
        return rnp.zeros(shape, "float32"), rnp.zeros(shape, "int32")

    values, tokens = lax.cond(is_listed, listed, nothing, logits)
    return token, logprobs, tokens, values - total


def _with_bias(logits: Any, ids: Any, added: Any) -> Any:
    row = rnp.arange(logits.shape[0], dtype="int32")[:, None]
    return logits.at[row, ids].add(added, mode="drop")


def _allowed(logits: Any, mask: Any) -> Any:
    """Logits of the tokens whose bits are set, the others at minus infinity."""
    token = rnp.arange(logits.shape[1], dtype="uint32")
    bits = mask[:, (token // WORD).astype("int32")] >> (token % WORD)[None]
    return rnp.where((bits & 1) == 1, logits, -rnp.inf)


def _with_penalties(logits: Any, history: Any, start: Any, count: Any, how: dict[str, Any]) -> Any:
    rows, size = logits.shape
    places = rnp.arange(history.shape[1], dtype="int32")[None]
    is_known, is_drawn = places < count[:, None], places >= start[:, None]
    row = rnp.arange(rows, dtype="int32")[:, None]

    def counted(where: Any) -> Any:
        tokens = rnp.where(where, history, size)
        return rnp.zeros((rows, size), "int32").at[row, tokens].add(1, mode="drop")

    seen, times = counted(is_known) > 0, counted(is_known & is_drawn)
    factor = how["repetition_penalty"][:, None]
    repeated = rnp.where(logits > 0, logits / factor, logits * factor)
    changed = rnp.where(seen, repeated, logits)
    changed = changed - how["frequency_penalty"][:, None] * times
    return changed - how["presence_penalty"][:, None] * (times > 0)


def _with_noise(logits: Any, index: Any, how: dict[str, Any]) -> Any:
    """Logits whose greatest is a random draw (Gumbel's trick)."""
    temperature = how["temperature"][:, None]
    cut = rnp.any((how["top_k"] > 0) | (how["top_p"] < 1) | (how["min_p"] > 0))
    # the greatest becomes 0, so that no temperature makes it infinite
    below = logits - rnp.max(logits, -1, keepdims=True)
    divided = below / rnp.where(temperature > 0, temperature, 1.0)
    kept = lax.cond(cut, _truncated, lambda x, _: x, divided, how)

    def noise(seed: Any, index: Any) -> Any:
        key = random.fold_in(random.key(seed), index)
        return random.gumbel(key, (logits.shape[1],))

    drawn = kept + vmap(noise)(how["seed"], index)
    return rnp.where(temperature > 0, drawn, logits)


def _truncated(logits: Any, how: dict[str, Any]) -> Any:
    order = _ordered(logits)
    top_k = rnp.where(how["top_k"] > 0, how["top_k"], logits.shape[1])[:, None]
    least = _greatest_place(order, lambda x: rnp.sum(x, -1, keepdims=True, dtype="int32") >= top_k)
    kept = rnp.where(order >= least, logits, -rnp.inf)
    weights = nn.softmax(kept, -1)
    top_p = rnp.minimum(how["top_p"], 1.0)[:, None]

    def is_enough(chosen: Any) -> Any:
        return rnp.sum(rnp.where(chosen, weights, 0.0), -1, keepdims=True) >= top_p

    least = _greatest_place(order, is_enough)
    kept = rnp.where((order >= least) | (top_p >= 1), kept, -rnp.inf)
    most = rnp.max(kept, -1, keepdims=True)
    bound = most + rnp.log(how["min_p"])[:, None]
    return rnp.where(kept >= bound, kept, -rnp.inf)


def _ordered(x: Any) -> Any:
    """Integers in the order of floats."""
    bits = lax.bitcast_convert_type(x, "int32")
    return rnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _greatest_place(order: Any, is_enough: Any) -> Any:
    """The greatest number such that those from it on are enough, by bisection."""
    low = rnp.full((order.shape[0], 1), LEAST, "int32")
    high = rnp.full((order.shape[0], 1), GREATEST, "int32")

    def halved(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = (low & high) + ((low ^ high) >> 1) + ((low ^ high) & 1)  # rounded up
        enough = is_enough(order >= middle)
        return rnp.where(enough, middle, low), rnp.where(enough, high, middle - 1)

    return lax.fori_loop(0, 32, halved, (low, high))[0]

"""Every public function with junk in the place of each argument, in turn.

A call may give a result, an error of rlx, or a TypeError or ValueError that names the function or
the argument. Anything else is a finding: another exception, a warning, a call that does not end,
an error whose `where` is not a line of the caller. `python tests/fuzz_signatures.py` runs all,
`--only numpy.sum` some, and prints the findings by cause.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import enum
import functools
import importlib
import inspect
import io
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import junk_values
import numpy as np
import small_served
from junk_calls import CALLS, METHODS
from junk_models import MODELS
from junk_serving import SERVING
from junk_values import BY_NAME, JUNK
from parity.arguments import ARRAYS
from parity.tables import by_function

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import InternalError, RlxError

HOUSE = str(Path(rlx.__file__).parent)
MODULES = (
    "numpy numpy.linalg numpy.fft lax lax.linalg random nn nn.initializers nn.losses optim train "
    "optim.schedules tree tree_util image ops testing flatten_util scipy.special scipy.linalg "
    "scipy.signal scipy.stats scipy.fft scipy.ndimage scipy.interpolate scipy.integrate "
    "scipy.optimize scipy.sparse.linalg scipy.cluster.vq scipy.spatial.transform"
).split()
# they stop and ask, wait for other machines, write to devices, or take minutes
LEFT_OUT = {
    "rlx.doctor",
    "rlx.export_coreml",
    "rlx.testing.check_backend",
    "numpy.get_printoptions",
    "numpy.set_printoptions",
    "debug.breakpoint",
    # for other parts of rlx
    "tree.flatten_like",
    "tree.difference",
    "tree.register_class",
    "tree.in_key_order",
    "tree.paths",
    "tree.fields_of",
    "tree.Fields",
    "tree.set_adopter",
}
CALLABLES = ("Stranger", "int", "len", "lambda")
ENDLESS = ("2**45",)  # rounds of a loop


@dataclass(frozen=True)
class Call:
    """A call that is right: `text` of the function, and of its arguments by name or place."""

    name: str
    function: str
    arguments: tuple[tuple[str, str], ...]  # ("", text) by place, (name, text) by keyword


def scope(module: str = "") -> dict[str, Any]:
    """The names that calls use."""
    found: Any = rlx
    for part in filter(None, module.split(".")):
        found = getattr(found, part)
    plain = type("Plain", (), {"__init__": lambda self, x=None: None})
    return {
        **{name: getattr(found, name) for name in dir(found)},
        "rlx": rlx,
        "rnp": rnp,
        "xp": rnp,
        "np": np,
        "lax": rlx.lax,
        "nn": rlx.nn,
        "tree": rlx.tree,
        "top": rlx,
        "sin": lambda x: rnp.sin(x),
        "np_sin": _np_sin,
        "square_sum": lambda x: rnp.sum(x * x),
        "served": small_served,
        "Plain": plain,
        "Plain2": type("Plain2", (), {}),
        **{name: rnp.asarray(array) for name, array in ARRAYS.items()},
        **(vars(found) if module else {}),
    }


def _np_sin(x: Any) -> Any:
    return np.sin(x)


def _parsed(text: str, name: str = "") -> Call | None:
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Call) or any(isinstance(x, ast.Starred) for x in node.args):
        return None
    by_place = [("", ast.unparse(x)) for x in node.args]
    by_name = [(x.arg or "", ast.unparse(x.value)) for x in node.keywords]
    function = ast.unparse(node.func)
    return Call(name or function, function, (*by_place, *by_name))


@functools.cache
def calls() -> dict[str, list[tuple[str, Call]]]:
    """Right calls of all public functions, with the module whose names they use."""
    importlib.import_module("rlx.scipy")
    found: dict[str, list[tuple[str, Call]]] = {}
    for name, cases in by_function().items():
        for case in cases:
            call = _parsed(case.text, name)
            if call is not None and ast.unparse(ast.parse(call.function)) == name.split(".")[-1]:
                found.setdefault(name, []).append((case.module, call))
    for line in filter(None, (CALLS + METHODS + MODELS + SERVING).splitlines()):
        call = _parsed(line)
        assert call is not None, line
        found.setdefault(call.name.removeprefix("rlx."), []).append(("", call))
    for module in MODULES:
        for name, fn in _functions(module):
            if name not in found and name not in LEFT_OUT:
                guessed = _guessed(name, fn)
                found[name] = [(module, guessed)] if guessed else []
    for name, fn in _of_distributions():
        guessed = _guessed(name, fn)
        if guessed and f"scipy.stats.{name}" not in found:
            found[f"scipy.stats.{name}"] = [("scipy.stats", replace(guessed, function=name))]
    return {name: _few(known) for name, known in found.items()}


def _few(known: list[tuple[str, Call]]) -> list[tuple[str, Call]]:
    """The calls that between them have the most arguments: two suffice."""
    return sorted(known, key=lambda pair: -len(pair[1].arguments))[:2]


def _functions(module: str) -> Iterator[tuple[str, Any]]:
    importlib.import_module(f"rlx.{module}") if "scipy" in module else None
    home: Any = rlx
    for part in module.split("."):
        home = getattr(home, part)
    for name in getattr(home, "__all__", list(vars(home))):
        fn = getattr(home, name)
        is_public = not name.startswith("_") and callable(fn) and not isinstance(fn, ModuleType)
        is_own = f"{getattr(fn, '__module__', '')}.".startswith(f"{home.__name__}.")
        is_made_elsewhere = isinstance(fn, type) and issubclass(fn, Exception | enum.Enum)
        is_function = not is_made_elsewhere and not getattr(fn, "_is_protocol", False)
        if is_public and is_own and is_function:
            yield f"{module}.{name}", fn


def _of_distributions() -> Iterator[tuple[str, Any]]:
    """The functions of the classes in `rlx.scipy.stats`."""
    for name, of in vars(rlx.scipy.stats).items():
        is_own = isinstance(of, type) and of.__module__.startswith("rlx.")
        for key, member in vars(of).items() if is_own else ():
            if isinstance(member, staticmethod) and not key.startswith("_"):
                yield f"{name}.{key}", member.__func__


def _guessed(name: str, fn: Any) -> Call | None:
    """A call that a signature suggests."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (ValueError, TypeError):
        return None
    arguments = []
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.default is p.empty:
            by_name = p.name if p.kind == p.KEYWORD_ONLY else ""
            arguments.append((by_name, BY_NAME.get(p.name, "a")))
    return Call(name, name.split(".")[-1], tuple(arguments))


def extended(call: Call, fn: Any) -> Call:
    """The call with its other keywords at their defaults."""
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError):
        return call
    places = [p for p in signature.parameters.values() if p.kind in (0, 1)]
    given = {p.name for p in places[: sum(not n for n, _ in call.arguments)]}
    given |= {name for name, _ in call.arguments}
    more = [
        (p.name, repr(p.default))
        for p in signature.parameters.values()
        if p.kind in (1, 3) and p.name not in given and p.default is not p.empty
    ]
    return Call(call.name, call.function, (*call.arguments, *more))


def mutations(call: Call, space: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The call with each argument replaced in turn, and with a misspelt keyword."""
    fn = eval(call.function, space)
    whole = extended(call, fn)
    known = [(name, text) for name, text in call.arguments]

    def run(i: int, make: Callable[[], Any]) -> Any:
        args, keywords = [], {}
        for j, (name, text) in enumerate(whole.arguments):
            if j != i and j >= len(known):
                continue
            value = make() if j == i else eval(text, space)
            if name:
                keywords[name] = value
            else:
                args.append(value)
        return eval(call.function, space)(*args, **keywords)

    for i, (name, _) in enumerate(whole.arguments):
        for junk, make in JUNK.items():
            yield f"{name or i}={junk}", lambda i=i, make=make: run(i, make)
    # under a trace the same argument is a tensor without numbers
    for i, (name, text) in enumerate(known):
        yield (
            f"{name or i}=traced",
            lambda i=i, text=text: rlx.make_graph(lambda x: run(i, lambda: x))(np.float32(1)),
        )
        yield (
            f"{name or i}=traced vector",
            lambda i=i: rlx.make_graph(lambda x: run(i, lambda: x))(np.ones(3, np.float32)),
        )
    yield (
        "misspelt",
        lambda: fn(
            *[eval(t, space) for n, t in known if not n],
            **{n: eval(t, space) for n, t in known if n},
            **({} if _takes_any(fn) else {"axsi": 0}),
        ),
    )
    yield "nothing", lambda: fn()


def _takes_any(fn: Any) -> bool:
    with contextlib.suppress(ValueError, TypeError):
        return any(p.kind == p.VAR_KEYWORD for p in inspect.signature(fn).parameters.values())
    return True


class TimeUpError(BaseException):
    """A call that did not end."""


def _ring(*_: Any) -> None:
    raise TimeUpError


def verdict(call: Call, fn: Any, run: Callable[[], Any], seconds: float = 20.0) -> dict | None:
    """What is wrong with a call, or None."""
    signal.signal(signal.SIGALRM, _ring)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            # again and again: the first may ring where Python passes errors by
            signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
            try:
                run()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeUpError as error:
        return _finding("no end", "", error)
    except InternalError as error:
        return _finding("InternalError", str(error), error)
    except RlxError as error:
        return _checked(error)
    except (TypeError, ValueError) as error:
        if type(error) in (TypeError, ValueError) and _names(call, fn, str(error)):
            return None
        return _finding(type(error).__name__, str(error), error)
    except AssertionError as error:  # of derivatives that are asked for with a step of 1.5
        is_check = call.name.startswith("rlx.testing.check_")
        return None if is_check else _finding("AssertionError", str(error), error)
    except UserWarning as warning:  # that one names the function, and does what it says
        return (
            None if _names(call, fn, str(warning)) else _finding("warning", str(warning), warning)
        )
    except BaseException as error:
        return _finding(type(error).__name__, str(error), error)
    return None


def _names(call: Call, fn: Any, text: str) -> bool:
    """Whether a message names the function or one of its parameters."""
    words = set(re.findall(r"\w+", text))
    names = {call.name.split(".")[-1], getattr(fn, "__name__", "")}
    with contextlib.suppress(ValueError, TypeError):
        names |= set(inspect.signature(fn).parameters)
    names |= {"__init__", "__new__", "__call__", "<lambda>"} if "argument" in text else set()
    called = re.match(r"(\S+)\(\) ", text)  # as Python says that arguments are missing, or unknown
    return bool((words if called is None else {called[1].split(".")[-1]}) & names)


def _checked(error: RlxError) -> dict | None:
    """An error of rlx has a fix, and where it happened is a line of the caller."""
    where = str(error.where or "")
    place = where.split(":")[0]
    if not error.fix or not error.what:
        return _finding("no fix", str(error), error)
    if place.endswith(".py") and place not in ("fuzz_signatures.py", "junk_values.py"):
        if not place.startswith("test_"):
            return _finding("where", where, error)
    return None


def _finding(kind: str, text: str, error: BaseException) -> dict:
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, TimeUpError):
        frames = [frame for frame in frames if frame.name != _ring.__name__]
    ours = [f for f in frames if f.filename.startswith(HOUSE)]
    at = ours[-1] if ours else frames[-1]
    place = f"{at.filename.removeprefix(HOUSE + '/')}:{at.lineno}"
    outer = ours[0].name if ours else ""
    # raised by a function of the caller, or by a library that it calls
    beyond = itertools.takewhile(lambda f: not f.filename.startswith(HOUSE), reversed(frames))
    is_own = bool(ours) and any(map(_is_of_fuzz, beyond))
    found = {"kind": kind, "text": text[:300], "at": place, "in": at.name, "outer": outer}
    return {**found, "is_own": is_own}


def _is_of_fuzz(frame: traceback.FrameSummary) -> bool:
    return frame.filename in ("<string>", __file__, junk_values.__file__)


def fuzz(names: list[str], report: Callable[[dict], None], step: int = 1, start: int = 0) -> int:
    """Run the calls of some functions; every `step`-th of them, from `start`."""
    with rlx.config.using(traceback="full"):  # to see whose function an error came out of
        return _fuzz(names, report, step, start)


def _fuzz(names: list[str], report: Callable[[dict], None], step: int, start: int) -> int:
    known = calls()
    spaces: dict[str, dict[str, Any]] = {}
    count = 0
    for name in names:
        for module, call in known[name]:
            space = spaces.setdefault(module, scope(module))
            try:
                fn = eval(call.function, space)
                tried = list(mutations(call, space))
            except Exception as error:
                report({"call": name, **_finding("setup", str(error), error)})
                continue
            for i, (how, run) in enumerate(tried):
                if (i + start) % step:
                    continue
                count += 1
                report({"begin": f"{call.name}({how})", "of": name})
                found = verdict(call, fn, run)
                found = found and {"call": f"{call.name}({how})", **found}
                if found and not _is_callers_own(how, found):
                    report(found)
    return count


def _is_callers_own(how: str, found: dict) -> bool:
    """Whether a function of the caller raised it, or rounds without end were asked for."""
    junk = how.partition("=")[2]
    if junk in CALLABLES and found["kind"] in ("TypeError", "ValueError"):
        return True
    # the condition of `while_loop` is the caller's, and may hold forever from another start
    is_endless = junk in ENDLESS or "while_loop(" in found.get("call", "")
    return found["is_own"] or (found["kind"] == "no end" and is_endless)


# -- many processes -------------------------------------------------------------------------------


def _work(names: list[str], path: str, step: int, start: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    os.chdir(tempfile.mkdtemp())
    with open(path, "a") as out:

        def report(found: dict) -> None:
            print(json.dumps(found), file=out, flush=True)

        fuzz(names, report, step, start)
        report({"done": len(names)})


def _chunk(names: list[str], limit: float, step: int, start: int) -> list[dict]:
    """Findings of processes of their own; after one that died, another goes on behind the call."""
    found: list[dict] = []
    while names:
        more, begun = _process(names, limit, step, start)
        found += more
        names = names[names.index(begun) + 1 :] if begun else []
    return found


def _process(names: list[str], limit: float, step: int, start: int) -> tuple[list[dict], str]:
    """Findings of a process, and the function that it died in."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/out"
        text = f"import fuzz_signatures as f; f._work({names!r}, {path!r}, {step}, {start})"
        env = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{Path(HOUSE).parent}"}
        died = ""
        try:
            run = subprocess.run(
                [sys.executable, "-c", text],
                env=env,
                timeout=limit,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            died = run.stderr[-500:] if run.returncode else ""
        except subprocess.TimeoutExpired:
            died = "no end, even of the alarm"
        lines = Path(path).read_text().splitlines() if os.path.exists(path) else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
    found = [row for row in rows if "kind" in row]
    if any("done" in row for row in rows):
        return found, ""
    last = next((row["begin"] for row in reversed(rows) if "begin" in row), names[0])
    at = {"at": "", "in": "", "outer": ""}
    found.append({"kind": "died", "call": last, "text": died, **at})
    begun = next((row["of"] for row in reversed(rows) if "begin" in row), names[0])
    return found, begun


def main() -> None:
    """Run all functions, or those named, and print the findings by cause."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names that begin so")
    parser.add_argument("--step", type=int, default=1, help="every n-th call alone")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--out", default="", help="a file for all findings")
    given = parser.parse_args()
    names = [name for name in calls() if name.startswith(given.only)]
    found: list[dict] = []
    for i in range(0, len(names), 32):
        part = names[i : i + 32]
        found += _chunk(part, 900, given.step, given.start)
        print(f"{i + len(part)}/{len(names)}: {len(found)} findings", file=sys.stderr, flush=True)
        if given.out:
            Path(given.out).write_text("\n".join(map(json.dumps, found)))
    print(summary(found))
    sys.exit(bool(found))


def summary(found: list[dict]) -> str:
    """Findings by cause, the most frequent first."""
    causes = collections.defaultdict(list)
    for row in found:
        causes[row["kind"], row["at"], row["in"]].append(row)
    lines = [f"{len(found)} findings of {len(causes)} causes"]
    for (kind, at, function), rows in sorted(causes.items(), key=lambda x: -len(x[1])):
        examples = "; ".join(row["call"] for row in rows[:3])
        lines.append(f"{len(rows):5} {kind} at {at} {function}: {rows[0]['text'][:120]!r}")
        lines.append(f"      {examples}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

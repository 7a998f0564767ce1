"""Render Jinja templates in a process of its own, with little memory and time.

`template.py` runs this file alone: lines of JSON come in, lines of JSON go out. A template that
takes more than a second of the processor or `ROOM` bytes ends the process.
"""

import datetime
import json
import sys
from typing import Any, NoReturn

ROOM = 48 << 20  # bytes beyond what the process has when it begins
SECONDS = 1.0  # of the processor
MOST_KNOWN = 16  # templates that stay compiled


def main() -> None:
    """Answer requests until there are no more."""
    import jinja2

    environment = _environment()
    _bound_memory()
    known: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        _bound_time(SECONDS)
        try:
            source = asked["source"]
            if source not in known:
                if len(known) == MOST_KNOWN:
                    known.clear()
                known[source] = environment.from_string(source)
            answer = {"text": known[source].render(_with_functions(asked["variables"]))}
        except _Refused as error:
            answer = {"refused": str(error)}
        except jinja2.TemplateSyntaxError as error:
            answer = {"syntax": f"line {error.lineno}: {error.message}"}
        except MemoryError:
            answer = {"memory": ""}
        except Exception as error:  # a template may fail in any way
            answer = {"error": f"{type(error).__name__}: {error}"}
        _bound_time(0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


class _Refused(Exception):
    """What a template says of messages that it does not take."""


def _environment() -> Any:
    """The environment of Hugging Face's templates, in a sandbox."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )

    def tojson(x: Any, ensure_ascii: bool = False, indent: Any = None, **others: Any) -> str:
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, **others)

    made.filters["tojson"] = tojson
    return made


def _with_functions(variables: dict[str, Any]) -> dict[str, Any]:
    now = datetime.datetime.fromtimestamp(variables.pop("now"))

    def raise_exception(message: Any) -> NoReturn:
        raise _Refused(str(message)[:500])

    return {**variables, "raise_exception": raise_exception, "strftime_now": now.strftime}


def _bound_memory() -> None:
    try:
        import resource

        with open("/proc/self/statm") as file:
            here = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # Windows and macOS keep no such limit
        return
    resource.setrlimit(resource.RLIMIT_AS, (here + ROOM, here + ROOM))


def _bound_time(seconds: float) -> None:
    """Have the system end the process after so many seconds; 0 for never."""
    import signal

    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    main()

"""The command line: what it prints, and errors that say how to fix them."""

from __future__ import annotations

import io
import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf_writer import gguf, info, row
from llama_reference import Reference
from llama_writer import write_llama
from real_models import minilm_path, smollm, smollm_path

import rlx
from rlx.cli import main as command, options

ROOT = Path(__file__).parent.parent


@pytest.fixture
def rlx_prints(capsys, monkeypatch):
    """What the command line prints, with the status; the real model is opened once."""
    monkeypatch.setattr(options, "load", _load)

    def run(*arguments: str, lines: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        status = command.main(arguments)
        return status, *capsys.readouterr()

    return run


def _load(path: str, *, compute: str, shared: bool) -> object:
    is_real = Path(path) == smollm_path()
    return smollm(compute) if is_real else rlx.models.load(path, compute=compute)


def test_help_lists_the_verbs_and_shows_how_to_begin():
    done = subprocess.run(
        [sys.executable, "-m", "rlx", "--help"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert all(verb in done.stdout for verb in command.VERBS)
    assert 'rlx run model.gguf "What is the capital of France?"' in done.stdout


@pytest.mark.parametrize("verb", command.VERBS)
def test_every_verb_describes_its_arguments(verb, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main([verb, "--help"])
    assert ended.value.code == 0
    assert command.VERBS[verb][1:].split(";")[0].split(",")[0] in " ".join(
        capsys.readouterr().out.split()
    )


def test_run_answers_a_prompt(rlx_prints):
    question = "What is the capital of France?"
    status, out, _ = rlx_prints("run", str(smollm_path()), question, "--max-tokens", "8")
    answer = smollm().chat([{"role": "user", "content": question}], max_tokens=8).text
    assert (status, out) == (0, answer + "\n")


def test_run_goes_on_with_a_text(rlx_prints):
    model, options = str(smollm_path()), ["--raw", "--max-tokens", "4", "--stop", "."]
    _, out, _ = rlx_prints("run", model, *options, lines="The capital of France is")
    assert out == " Paris\n"


def test_chat_remembers_what_was_said(rlx_prints):
    model = str(smollm_path())
    _, out, _ = rlx_prints(
        "chat", model, "--max-tokens", "3", lines="Hi\n\nHello\n/new\nHi\n/exit\n"
    )
    first = smollm().chat([{"role": "user", "content": "Hi"}], max_tokens=3).text
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": first}]
    second = smollm().chat([*said, {"role": "user", "content": "Hello"}], max_tokens=3).text
    assert out.splitlines() == f"{first}\n{second}\n{first}".splitlines()


def test_info_says_what_a_model_is_and_what_it_takes(rlx_prints):
    _, out, _ = rlx_prints("info", str(smollm_path()), "--settings")
    assert "272 tensors, 134.5 million numbers in 96.6 MB" in out
    assert "q4_1 66.4 MB, q8_0 30.1 MB, float32 141 kB" in out
    assert "LanguageModel(30 layers" in out
    assert "46.1 kB a token" in out
    assert "general.architecture = 'llama'" in out
    assert "tokenizer.ggml.tokens = 49152 of str" in out


def test_info_prints_a_template_and_tensors(rlx_prints):
    _, out, _ = rlx_prints("info", str(smollm_path()), "--template")
    assert out.startswith("{% for message in messages %}")
    _, out, _ = rlx_prints("info", str(minilm_path()), "--tensors")
    assert "Encoder(6 layers" in out
    assert "embeddings.word_embeddings.weight" in out and "f32[30522, 384]" in out


def test_info_knows_files_of_arrays_and_exports(rlx_prints, tmp_path):
    rlx.save(tmp_path / "x.npz", {"w": np.ones((2, 3), "float32")})
    _, out, _ = rlx_prints("info", str(tmp_path / "x.npz"), "--tensors")
    assert "1 tensors, 6 numbers in 24 B" in out and "f32[2, 3]" in out
    weights = rlx.numpy.ones((3,))
    exported = rlx.export(lambda x: x * weights, rlx.numpy.ones((3,)))
    exported.save(tmp_path / "f.rlx")
    _, out, _ = rlx_prints("info", str(tmp_path / "f.rlx"), "--tensors")
    assert "export of" in out and "1 arrays of its own, 12 B" in out


def test_info_knows_a_file_by_its_first_bytes(rlx_prints, tmp_path):
    place = tmp_path / "blob"
    place.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(16))
    _, out, _ = rlx_prints("info", str(place))
    assert out.startswith("blob: 0 tensors")


def test_bench_measures_reading_and_writing(rlx_prints, tmp_path):
    path = tmp_path / "tiny.gguf"
    write_llama(path, np.random.default_rng(0), ["q4_0"], layers=1, scaling="none", window=None)
    given = ["--prompt", "8", "--rows", "1", "2", "--rounds", "1"]
    status, out, _ = rlx_prints("bench", str(path), *given)
    assert status == 0
    assert [line.split("rlx")[0].strip() for line in out.splitlines()[1:]] == [
        "read 8", "write 1 at 8", "write 2 at 8",
    ]  # fmt: skip


@pytest.mark.parametrize("format", ["q4_0", "q8_0", "q6_k"])
def test_quantize_writes_a_file_that_others_read(rlx_prints, tmp_path, format):
    source, target = tmp_path / "tiny.gguf", tmp_path / "small.gguf"
    kind = dict(layers=1, size=256, hidden=256, scaling="factors", window=None)
    write_llama(source, np.random.default_rng(0), ["f32", "q8_0", "f16"], **kind)
    status, out, _ = rlx_prints("quantize", str(source), str(target), "--format", format)
    assert status == 0 and f"-> {format}" in out and " of their size" in out
    before, after = Reference.of(source), Reference.of(target)
    assert before.fields.keys() == after.fields.keys()
    for name, x in before.tensors.items():
        y = after.tensors[name]
        assert x.shape == y.shape
        spread = np.abs(x - y).max() / np.abs(x).max()
        assert spread < {"q8_0": 0.01, "q6_k": 0.04}.get(format, 0.2)
    ids = np.array([[1, 2, 3, 4]])
    found = rlx.models.load(target)(ids).host()[0]
    np.testing.assert_allclose(found, after.logits([1, 2, 3, 4]), atol=1e-3)
    assert not list(tmp_path.glob("*.partial*"))


def test_quantize_keeps_the_alignment_of_a_file(rlx_prints, tmp_path):
    source, target = tmp_path / "x.gguf", tmp_path / "y.gguf"
    rows, infos = [row("general.alignment", "u32", 1024)], []
    for i in range(3):
        infos.append(info(f"w{i}", (2, 32), 0, 1024 * i))
    source.write_bytes(gguf(rows, infos, np.arange(768, dtype="f4").tobytes(), alignment=1024))
    assert rlx_prints("quantize", str(source), str(target), "--format", "q8_0")[0] == 0
    found = rlx.io.open(target)["w1"].dequantize()
    np.testing.assert_allclose(found, np.arange(256, 320).reshape(2, 32), atol=1.5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "/no/such.gguf", "Hi"], "rlx: cannot read '/no/such.gguf'"),
        (["info", __file__], "this is no exported function"),
        (["serve", "MODEL", "--port", "99999"], "--port is 99999"),
        (["bench", "MODEL", "--rounds", "0"], "--rounds is 0"),
        (["bench", "MODEL", "--rows", "0", "1"], "--rows is 0"),
        (["quantize", __file__[:-3] + ".gguf", "x.gguf"], "there is no such file"),
        (["info", str(ROOT / "docs")], "has no file of tensors"),
        (["run", __file__, "Hi"], f"rlx: {__file__!r}: this is no safetensors file"),
        (["run", "MODEL", "Hi", "--top-p", "2"], "top_p is 2"),
        (["run", "MODEL", "Hi", "--max-tokens", "9999"], "over the model's context of 8192"),
        (["quantize", "MODEL", "MODEL"], "write over what it reads"),
        (["quantize", "MODEL", "x.safetensors"], "name it x.safetensors.gguf"),
        (["quantize", "MODEL", "."], "which does not end with .gguf"),
        (["quantize", __file__, "x.gguf"], "is no GGUF file"),
        (["serve", "MODEL", "--memory", "4G"], "fix: give --workers"),
        (["serve", "MODEL", "--memory", "lots", "--workers", "1"], "Workers: memory is 'lots'"),
        (["quantize", "MODEL", "/no/such/x.gguf"], "cannot write"),
        (["run", "ENCODER", "Hi"], "is an encoder, which writes no text"),
        (["run", "MODEL", "Hi\udcff"], "the prompt is no text in UTF-8"),
        (["run", "MODEL", "Hi", "--raw", "--system", "You"], "--system is for answers"),
        (["run", "MODEL", "word " * 9000], "tokens and 1 more are over the model"),
        (
            ["bench", "MODEL", "--prompt", "8185"],
            "8 more tokens are over the model's context of 8192",
        ),
        (["quantize", "MODEL", "x/.." + "/x" * 300 + ".gguf"], "cannot write"),
        (["info", "/dev/zero"], "it is no regular file"),
    ],
)
def test_errors_say_what_and_how_to_fix_it(rlx_prints, arguments, says):
    places = {"MODEL": lambda: str(smollm_path()), "ENCODER": lambda: str(minilm_path())}
    status, _, error = rlx_prints(*(places.get(x, lambda x=x: x)() for x in arguments))
    assert status == 2
    assert says in error
    assert "\nfix: " in error
    assert "Traceback" not in error


def test_a_full_disk_and_letters_that_a_terminal_has_not(tmp_path):
    path = tmp_path / "tiny.npz"
    rlx.save(path, {"\u00e9": np.ones(3)})
    command = [sys.executable, "-m", "rlx", "info", str(path), "--tensors"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment, check=True)
    assert done.stdout.endswith(b"?  f64[3]\n") and not done.stderr
    subprocess.run(f"{shlex.join(command)} <&- >&-", shell=True, cwd=ROOT, check=True)
    if not os.path.exists("/dev/full"):
        return
    for given in command[3:], ["--help"], ["--version"], ["run", "--help"]:
        with open("/dev/full", "w") as full:
            line = [*command[:3], *given]
            done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, cwd=ROOT)
        assert done.returncode == 2
        assert done.stderr == b"rlx: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("command", [["-m", "rlx"], ["-mrlx", "doctor"], ["SCRIPT", "cache"]])
def test_a_wrong_setting_is_an_error_of_the_command(tmp_path, command):
    script = tmp_path / "rlx"  # as pip writes one
    script.write_text("import sys\nfrom rlx.cli.main import main\nsys.exit(main())")
    for name, value in (("RLX_NUM_THREADS", "x"), ("RLX_DEVICES", "cpu"), ("RLX_CHECK", "yes")):
        environment = {**os.environ, name: value, "PYTHONPATH": str(ROOT)}
        line = [sys.executable, *(str(script) if x == "SCRIPT" else x for x in command)]
        done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=environment)
        assert done.returncode == 2 and not done.stdout
        what, fix = done.stderr.splitlines()
        assert what.startswith("rlx: ") and name in what and fix.startswith("fix: ")
    used = [sys.executable, "-c", "import rlx", "rlx"]
    done = subprocess.run(used, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 1 and "ConfigError: RLX_CHECK is 'yes'" in done.stderr


def test_what_a_context_has_room_for(rlx_prints, tmp_path):
    """Without --max-tokens the rest of the context is written; a talk that fills it ends."""
    path, source = tmp_path / "tiny.gguf", tmp_path / "small.gguf"
    write_llama(source, np.random.default_rng(0), ["q4_0"], layers=1, scaling="none", window=None)
    short, given = struct.pack("<I", 30), source.read_bytes()
    key = b"llama.context_length" if b"llama.context_length" in given else b".context_length"
    place = given.index(key) + len(key) + 4
    path.write_bytes(given[:place] + short + given[place + 4 :])
    status, out, _ = rlx_prints("run", str(path), "abc")
    assert status == 0 and out
    status, _, error = rlx_prints("chat", str(path), lines="Hi\n")
    assert status == 2 and "the model has no chat template" in error

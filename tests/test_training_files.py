"""Checkpoints of a training: which stay, what a killed process leaves, what a damaged file does."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.io import Checkpoints, checkpoints
from rlx.ir.files import reaching

ROOT = Path(__file__).parent.parent
KILLS = int(os.environ.get("KILLS", "1"))
STEPS, QUICK_STEPS = 4 + 3 * KILLS, 4 + 40 * KILLS  # more than are made before the last kill
# programs that print each step: their command, and what they leave at the end
PROGRAMS = {
    "MLP": (("tests/killed_training.py", "{}", f"{QUICK_STEPS}"), "final.npz"),
    "CNN": (
        ("examples/cnn.py", "--out", "{}", "--steps", f"{STEPS}", "--every", "1"),
        f"cnn-{STEPS}-steps/step_{STEPS:08d}.safetensors",
    ),
}


def state(step):
    return {"w": rnp.full((3,), float(step)), "key": rlx.random.key(step), "step": step}


def saved(path, *steps, **options):
    with Checkpoints(path, **options) as made:
        for step in steps:
            made.save(step, state(step))
    return made


def damage(path):
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_the_last_few_stay(asynchronous, tmp_path):
    made = saved(
        tmp_path / "run", 10, 20, 30, 40, 50, keep=2, keep_every=20, asynchronous=asynchronous
    )
    assert made.steps() == [20, 40, 50] and made.latest() == 50
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        f"step_{step:08d}.safetensors" for step in (20, 40, 50)
    ]
    found = Checkpoints(tmp_path / "run").restore(like=state(0))
    assert found["step"] == 50 and np.asarray(found["w"]).tolist() == [50.0] * 3
    assert np.array_equal(found["key"], rlx.random.key(50))
    assert made.restore(like=state(0), step=20)["step"] == 20
    assert saved(tmp_path / "all", 1, 2, 3, 4, 5, keep=None).steps() == [1, 2, 3, 4, 5]


def test_without_checkpoints(tmp_path):
    made = Checkpoints(tmp_path / "none")
    assert made.latest() is None and made.steps() == [] and not (tmp_path / "none").exists()
    with pytest.raises(rlx.FileMissingError, match="there is no checkpoint in"):
        made.restore(like=state(0))
    made = saved(tmp_path, 3)
    with pytest.raises(rlx.FileMissingError, match="no checkpoint of step 4") as caught:
        made.restore(like=state(0), step=4)
    assert caught.value.fix.startswith("the steps are 3")


def test_a_damaged_file_is_passed_over(tmp_path):
    made = saved(tmp_path, 1, 2, 3)
    damage(made.path(3))
    made.path(2).write_bytes(made.path(2).read_bytes()[:-1])
    assert made.latest() == 3  # its header is right
    with pytest.warns(RuntimeWarning) as caught:
        assert made.restore(like=state(0))["step"] == 1
    texts = [re.sub("'/.*/", "'D/", str(one.message)) for one in caught]
    assert texts == [
        "the checkpoint of step 3 is passed over: 'D/step_00000003.safetensors': its checksum "
        "differs: the file was altered",
        "the checkpoint of step 2 is passed over: 'D/step_00000002.safetensors': 'key' lies "
        "outside of the file, at bytes 20 to 28",
    ]
    with pytest.raises(rlx.FileFormatError, match="its checksum differs"):
        made.restore(like=state(0), step=3)
    made.save(3, state(3))
    made.wait()
    made.path(3).write_bytes(made.path(3).read_bytes().replace(b'"w"', b'"v"'))  # another name
    with pytest.raises(rlx.FileFormatError, match="its checksum differs"):
        made.restore(like=state(0), step=3)
    made.save(2, state(2))  # training goes on at step 1
    assert made.steps() == [1, 2] and made.restore(like=state(0))["step"] == 2
    for step in (1, 2):
        damage(made.path(step))
    with pytest.raises(rlx.FileFormatError, match="all 2 checkpoints"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.restore(like=state(0))


def test_a_state_that_does_not_fit_is_no_damage(tmp_path):
    made = saved(tmp_path, 1)
    with pytest.raises(rlx.StructureError, match=r"missing in the file: v, f32\[2\]"):
        made.restore(like={**state(0), "v": rnp.zeros(2)})


def test_a_step_before_the_newest_is_an_error(tmp_path):
    made = saved(tmp_path, 10)
    with pytest.raises(rlx.AttributeValueError) as caught:
        made.save(5, state(5))
    text = re.sub(r"test_training_files\.py:\d+ in \w+ .*", "L", str(caught.value))
    assert text == inspect.cleandoc(
        """
        Checkpoints.save: step 5 is before step 10, which is there
          where  L
          fix    save to another directory, or remove the later files: checkpoints.path(10).unlink()
        """
    )
    made.save(10, state(10))
    assert made.steps() == [10]


def test_errors_of_the_thread_come_with_the_next_call(tmp_path, monkeypatch):
    made = saved(tmp_path, 1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write", full)
    made.save(2, state(2))
    with pytest.raises(OSError, match="No space left"):
        made.wait()
    made.wait()
    assert made.steps() == [1]
    made.save(2, state(2))
    with pytest.raises(OSError, match="No space left"):
        made.save(3, state(3))


LAST = """
import sys
from rlx.io import Checkpoints, checkpoints
from rlx.ir.files import reaching

def full(*_):
    raise OSError(28, "No space left on device")

made = Checkpoints(sys.argv[1])
made.save(1, {"x": 1})
made.wait()
checkpoints.write = full
made.save(2, {"x": 2})
"""


def test_an_error_that_no_call_follows_is_a_warning_at_the_end(tmp_path):
    command = [sys.executable, "-c", LAST, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    place = str(tmp_path / "step_00000002.safetensors")
    text = f"RuntimeWarning: the checkpoint {place!r} was not written: [Errno 28] No space left"
    assert done.returncode == 0 and done.stderr.count(text) == 1
    assert Checkpoints(tmp_path).steps() == [1]


def test_saving_takes_the_arrays_as_they_are_now(tmp_path, monkeypatch):
    go, real = threading.Event(), checkpoints.write

    def late(*args):
        go.wait(10)
        real(*args)

    monkeypatch.setattr(checkpoints, "write", late)
    made, host, x = Checkpoints(tmp_path), np.zeros(3), rnp.zeros(1000)
    made.save(1, {"host": host, "x": x})
    host += 1
    after = rlx.jit(lambda x: x + 1, donate_argnums=0)(x)
    go.set()
    found = made.restore(like={"host": host, "x": after})
    assert found["host"].tolist() == [0, 0, 0] and not np.asarray(found["x"]).any()


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".step_00000007.safetensors.x.partial").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    made = Checkpoints(tmp_path)
    assert made.steps() == []
    assert len(list(tmp_path.iterdir())) == 2  # who only reads removes nothing
    made.save(1, state(1))
    made.wait()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "step_00000001.safetensors"]


def trained(program, directory, kills):
    """Train to the end, killed so often on the way; gives the file of the final state."""
    (script, *options), final = PROGRAMS[program]
    command = [sys.executable, str(ROOT / script), *(x.format(directory) for x in options)]
    cache = {"RLX_CACHE": str(directory.parent / "cache")}  # which is killed as well
    environment = {**os.environ, **cache, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    chance, killed = random.Random(kills), 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        if killed < kills:
            for _ in range(chance.randrange(1, 3)):  # so that it gets on
                process.stdout.readline()
            time.sleep(chance.random() * 0.02)
            process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        if process.returncode == 0:
            assert killed == kills
            return (directory / final).read_bytes()


@pytest.mark.parametrize("program", PROGRAMS if KILLS > 1 else ["MLP"])
def test_a_killed_training_ends_with_the_same_bits(program, tmp_path):
    """KILLS=20 in the environment kills both that often."""
    whole = trained(program, tmp_path / "whole", 0)
    assert trained(program, tmp_path / "killed", KILLS) == whole


def test_a_training_with_state_that_goes_on_ends_with_the_same_bits(tmp_path, monkeypatch):
    """The example with BatchNorm, dropout and shuffled batches, from its second step on."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(ROOT / "examples")
    cnn, chance = importlib.import_module("cnn"), np.random.default_rng(0)
    data = {"image": chance.uniform(size=(160, 8, 8, 1)).astype("f4"), "label": np.arange(160) % 10}
    whole = cnn.fit(data, 4, 1, tmp_path / "run")
    for step in (3, 4):
        Checkpoints(tmp_path / "run").path(step).unlink()
    again = cnn.fit(data, 4, 1, tmp_path / "run")
    for x, y in zip(rlx.tree.leaves(whole), rlx.tree.leaves(again), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_what_is_no_checkpoint_is_no_step(tmp_path):
    kept = rlx.io.Checkpoints(tmp_path)
    kept.save(3, {"w": np.ones(2, "f4")})
    kept.wait()
    for name in ("step_5.safetensors", "step_" + 8 * chr(0x667) + ".safetensors"):
        (tmp_path / name).write_bytes(kept.path(3).read_bytes())
    (tmp_path / "step_00000009.safetensors").mkdir()
    assert kept.steps() == [3] and kept.latest() == 3
    assert kept.restore({"w": np.zeros(2, "f4")})["w"].tolist() == [1, 1]


def test_a_checkpoint_of_another_structure_says_how_to_load_it(tmp_path):
    kept = rlx.io.Checkpoints(tmp_path)
    kept.save(0, {"w": np.ones(2, "f4")})
    with pytest.raises(rlx.StructureError, match="restore: 2 names") as caught:
        kept.restore({"v": np.ones(2, "f4")})
    assert "strict=False" in caught.value.fix and "rename" not in caught.value.fix


def test_a_directory_that_cannot_be_made_is_an_error_of_rlx(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(rlx.FileAccessError, match="cannot write"):
        kept = rlx.io.Checkpoints(tmp_path / "file")
        kept.save(0, {"w": np.ones(2, "f4")})
        kept.wait()


@pytest.mark.skipif(os.name == "nt", reason="rights are POSIX's")
def test_files_have_the_rights_of_new_files_and_keep_their_own(tmp_path):
    plain, saved = tmp_path / "plain", tmp_path / "a.safetensors"
    plain.touch()
    rlx.save(saved, {"w": np.ones(2, "f4")})
    assert saved.stat().st_mode == plain.stat().st_mode
    saved.chmod(0o640)
    rlx.save(saved, {"w": np.zeros(2, "f4")})
    assert saved.stat().st_mode & 0o777 == 0o640


def test_the_longest_name_of_a_file_is_written(tmp_path):
    path = tmp_path / f"{'x' * 243}.safetensors"
    rlx.save(path, {"x": 1})
    assert rlx.load(path) == {"x": 1}


def test_a_full_disk_needs_room(tmp_path):
    with pytest.raises(rlx.FileAccessError, match="no space left") as caught:
        with reaching(tmp_path, "write"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.fix == "make room on the disk, or give a path on another one"

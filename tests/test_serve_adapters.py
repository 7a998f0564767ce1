"""Adapters of an engine: each request has its own, whatever else a step computes."""

from __future__ import annotations

import gc
import itertools
import json
import weakref
from pathlib import Path

import gguf
import numpy as np
import pytest
from llama_writer import write_llama
from small_served import Watch, adapter, engine, small_model

import rlx
from rlx.models import Adapter, LanguageModel, load_adapter
from rlx.serve import Engine
from rlx.trace import pytree

PROMPTS = ([5, 6, 7, 8, 9, 10, 3], [5, 6, 7, 8, 9, 10, 4], [2])
CHOICES = (None, "one", "two")


def merged(model: LanguageModel, adapter: Adapter) -> LanguageModel:
    """The model with what an adapter adds in its weights."""
    layers = []
    for layer, own in zip(model.weights["layers"], adapter.layers, strict=True):
        added = {name: (np.asarray(down) @ up).T for name, (down, up) in own.items()}
        layers.append({name: w + added.get(name, np.float32(0)) for name, w in layer.items()})
    return LanguageModel(model.config, {**model.weights, "layers": layers}, ends=[0])


def run(engine: Engine) -> None:
    while engine.step():
        pass


def compile_all(engine: Engine) -> None:
    """Use all that is compiled at its first use, what writes NaN to pages too."""
    engine.generate([[3], [4]], max_tokens=2)
    engine.step()


def test_an_adapter_is_that_of_merged_weights():
    plain = Engine(small_model(), cache="16K", page_size=4, step_tokens=8, max_sequences=4)
    for seed, name in ((1, "one"), (2, "two")):
        for prompt in PROMPTS:
            given = {"max_tokens": 8, "logprobs": 5}
            plain.swap_weights(small_model().weights)
            without = plain.generate(prompt, **given)
            assert engine(10, 4, 8).generate(prompt, **given).tokens == without.tokens
            plain.swap_weights(merged(small_model(), adapter(seed)).weights)
            expected = plain.generate(prompt, **given)
            found = engine(10, 4, 8).generate(prompt, adapter=name, **given)
            assert found.tokens == expected.tokens
            # eps of logits near 10, through products of a few hundred terms
            np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=2e-5)
            assert expected.likeliest[0] != without.likeliest[0]


def test_mixed_in_one_batch_each_has_the_bits_it_has_alone(monkeypatch):
    lone, mixed = engine(40, 16, 64, 1), engine(24, 3, 12)
    watch, others = Watch(lone, monkeypatch), Watch(mixed, monkeypatch)
    asked = []
    for prompt, choice in itertools.product(PROMPTS, CHOICES):
        how = {"adapter": choice, "max_tokens": 6}
        ticket = lone.submit(prompt, tenant=str((prompt, choice)), **how)
        asked.append((prompt, how, ticket))
    run(lone)
    # one tenant: prefixes are shared between those of one adapter, never between others
    compile_all(mixed)
    together = [mixed.submit(prompt, **how) for prompt, how, _ in asked]
    with rlx.no_recompile():
        run(mixed)
    for (_, _, alone), ticket in zip(asked, together, strict=True):
        assert others.of(ticket) == watch.of(alone)
    digests = {tuple(watch.of(ticket)) for *_, ticket in asked}
    assert len(digests) == len(asked)


def test_adapters_come_and_go_while_requests_run(monkeypatch):
    one = Engine(small_model(), cache="32K", page_size=4, step_tokens=8, max_sequences=4,
                 adapters=3, adapter_rank=2, poison=True)  # fmt: skip
    watch = Watch(one, monkeypatch)
    compile_all(one)
    one.adapters.attach("a", adapter(1))
    first = one.submit(PROMPTS[0], adapter="a", max_tokens=20)
    one.step()
    with rlx.no_recompile():
        one.adapters.attach("a", adapter(2))  # the name stands for another one
        second = one.submit(PROMPTS[0], adapter="a", max_tokens=20)
        one.step()
        one.adapters.attach("b", adapter(3, rank=1, names="gate up"))
        one.adapters.drop("a")
        third = one.submit(PROMPTS[0], adapter="b", max_tokens=20)
        assert list(one.adapters) == ["b"] and "a" not in one.adapters
        with pytest.raises(rlx.AttributeValueError, match="there is no adapter 'a'"):
            one.submit(PROMPTS[0], adapter="a")
        with pytest.raises(rlx.errors.InUseError, match="all 3 places for adapters are taken"):
            one.adapters.attach("c", adapter(4))
        run(one)
        one.adapters.attach("c", adapter(4))  # there is room again
        one.adapters.attach("again", adapter(4))  # the same content takes no other place
        one.adapters.attach("d", adapter(5))
    alone = engine(40, 16, 64, 1)
    lone_watch = Watch(alone, monkeypatch)
    wanted = [alone.submit(PROMPTS[0], adapter=x, max_tokens=20) for x in ("one", "two")]
    run(alone)
    for found, expected in zip((first, second), wanted, strict=True):
        assert watch.of(found) == lone_watch.of(expected)
    assert third.reason in ("stop", "length")


def test_weights_are_exchanged_under_load(monkeypatch):
    other = merged(small_model(), adapter(7))
    one = Engine(small_model(), cache="16K", page_size=4, step_tokens=8, max_sequences=4)
    watch = Watch(one, monkeypatch)
    compile_all(one)
    prompt = PROMPTS[0]
    before = one.submit(prompt, max_tokens=12)
    for _ in range(3):
        one.step()
    with rlx.no_recompile():
        one.swap_weights(other.weights)
        after = one.submit(prompt, max_tokens=12)
        run(one)
        again = one.submit(prompt, max_tokens=12)
        run(one)
        one.swap_weights(small_model().weights)
        back = one.submit(prompt, max_tokens=12)
        run(one)
    assert watch.of(before) == watch.of(back) != watch.of(after) == watch.of(again)
    assert one.model.weights is small_model().weights  # and the given model is as it was
    assert after.completion().tokens == other.generate(prompt, max_tokens=12).tokens
    with pytest.raises(rlx.errors.StructureError, match="the new weights are"):
        one.swap_weights({**other.weights, "norm": np.ones(33, "float32")})


def test_weights_that_nobody_computes_with_are_dropped():
    given = small_model()
    model = LanguageModel(given.config, pytree.map(np.copy, given.weights), ends=[0])
    one = Engine(model, cache="16K", page_size=4, step_tokens=8, max_sequences=4)
    old = weakref.ref(one._steps), weakref.ref(model.weights["norm"])
    del model
    running = one.submit(PROMPTS[0], max_tokens=12)
    one.step()
    one.swap_weights(given.weights)
    one.step()
    gc.collect()
    assert old[0]() is not None and not running.reason
    run(one)
    gc.collect()
    assert not any(x() is not None for x in old)


# -- files -----------------------------------------------------------------------------------------


SIZES = {"layers": 2, "size": 64, "hidden": 64, "kv_heads": 1, "heads": 2, "head_size": 32}
KIND = {"architecture": "llama", "scaling": "none", "window": None, "tied": True}
PROJECTIONS = "self_attn.q_proj self_attn.k_proj self_attn.v_proj mlp.down_proj".split()
WHERE = dict(zip(("q", "k", "v", "down"), PROJECTIONS, strict=True))
TURNED = {"k": 32, "q": 64}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    write_llama(path, np.random.default_rng(0), ["f32"], **SIZES, **KIND)
    return rlx.models.load(path)


def pairs(seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A and B of products of layer 1."""
    draw, sizes = np.random.default_rng(seed), dict.fromkeys(["q", "k", "v"], (64, 32))
    sizes |= dict.fromkeys(("q", "down"), (64, 64))

    def numbers(*shape: int) -> np.ndarray:
        return draw.normal(size=shape).astype("float32")

    return {name: (numbers(4, n), numbers(m, 4)) for name, (n, m) in sizes.items()}


def peft(folder: Path, names: str = "base_model.model.", **config: object) -> Path:
    """A folder as PEFT writes it."""
    import safetensors.numpy

    folder.mkdir(exist_ok=True)
    arrays = {}
    for name, (a, b) in pairs().items():
        module = f"{names}model.layers.1.{WHERE[name]}"
        arrays |= {f"{module}.lora_A.weight": a, f"{module}.lora_B.weight": b}
    safetensors.numpy.save_file(arrays, folder / "adapter_model.safetensors")
    given = {
        "peft_type": "LORA",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj"],
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps({**given, **config}))
    return folder


def in_pairs(b: np.ndarray) -> np.ndarray:
    """Rows of B as llama.cpp has them: halves of a head become neighbors."""
    halves = b.reshape(-1, 2, 16, b.shape[1])
    return np.stack([halves[:, 0], halves[:, 1]], 2).reshape(b.shape)


def test_files_of_peft_and_llama_cpp_are_read(model, tmp_path):
    found = load_adapter(peft(tmp_path / "a"), model)
    assert repr(found) == "Adapter(2 layers, rank 4)" and not found.layers[0]
    for name, (a, b) in pairs().items():
        down, up = found.layers[1][name]
        np.testing.assert_array_equal(down, a.T)
        np.testing.assert_array_equal(up, 2 * (in_pairs(b) if name in TURNED else b).T)
    plain = peft(tmp_path / "b", names="") / "adapter_model.safetensors"
    for alpha in (None, 6.0):
        one = load_adapter(plain, model, alpha=alpha).layers[1]["v"]
        np.testing.assert_allclose(one[1], (alpha or 4) / 4 * pairs()["v"][1].T, rtol=1e-6)
    root = load_adapter(peft(tmp_path / "c", use_rslora=True), model).layers[1]["v"]
    np.testing.assert_allclose(root[1], 4 * pairs()["v"][1].T, rtol=1e-6)
    own = load_adapter(peft(tmp_path / "d", alpha_pattern={"v_proj": 12}), model).layers[1]["v"]
    np.testing.assert_allclose(own[1], 3 * pairs()["v"][1].T, rtol=1e-6)
    path = tmp_path / "adapter.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_float32("adapter.lora.alpha", 8.0)
    for name, (a, b) in pairs().items():
        label = f"blk.1.{'ffn_down' if name == 'down' else f'attn_{name}'}.weight"
        writer.add_tensor(f"{label}.lora_a", a)
        writer.add_tensor(f"{label}.lora_b", in_pairs(b) if name in TURNED else b)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file()
    writer.close()
    same = load_adapter(path, model)
    for name, (down, up) in found.layers[1].items():
        np.testing.assert_array_equal(same.layers[1][name][0], down)
        np.testing.assert_array_equal(same.layers[1][name][1], up)


WRONG = [
    ({"use_dora": True}, "use_dora is 'true', which rlx has not"),
    ({"peft_type": "IA3"}, "peft_type is"),
    ({"init_lora_weights": "pissa"}, "init_lora_weights is '\"pissa\"', which rlx has not"),
    ({"use_rslora": "false"}, "use_rslora is"),
    ({"alpha_pattern": {"layers.*": 3}}, r"has the pattern 'layers.\*'"),
    ({"alpha_pattern": {"v_proj": "x"}}, "alpha_pattern.v_proj is 'x', not a finite number"),
    ({"lora_alpha": None}, "lora_alpha is 'None', not a finite number"),
    ({"names": "base_model.model.encoder."}, "8 arrays that are for no product"),
]


@pytest.mark.parametrize("config, message", WRONG, ids=lambda x: str(x)[:30])
def test_other_files_are_refused(model, tmp_path, config, message):
    with pytest.raises(rlx.FileFormatError, match=message):
        load_adapter(peft(tmp_path / "a", **config), model)


def test_adapters_of_other_models_are_refused():
    one = engine(10, 4, 8)
    with pytest.raises(
        rlx.AttributeValueError, match="the adapter has the rank 3, there is room for 2"
    ):
        one.adapters.attach("x", adapter(0, rank=3))
    with pytest.raises(rlx.errors.StructureError, match="the adapter has 1 layers, the model 2"):
        one.adapters.attach("x", Adapter(adapter(0).layers[:1]))
    with pytest.raises(rlx.ShapeError, match=r"has \(9, 2\) and \(2, 32\) for 'q' of layer 0"):
        one.adapters.attach("x", Adapter([{"q": (np.ones((9, 2)), np.ones((2, 32)))}, {}]))
    with pytest.raises(rlx.errors.StructureError, match="changes 'head' of layer 0"):
        one.adapters.attach("x", Adapter([{"head": (np.ones((9, 2)), np.ones((2, 32)))}, {}]))
    with pytest.raises(rlx.errors.FileMissingError):
        one.adapters.attach("x", "no such file.safetensors")
    with pytest.raises(rlx.ArgumentError, match="adapter is 3, not an adapter"):
        one.adapters.attach("x", 3)
    with pytest.raises(rlx.errors.InUseError, match="all 0 places"):
        Engine(small_model(), cache="16K", page_size=4).adapters.attach("x", adapter(0))

"""A program in the memory of an open device."""

from __future__ import annotations

from collections.abc import Sequence

from ...lower.lir.program import Buffer
from ..c_like.plan import Plan
from ..c_like.runner import Place, Places, Runner
from .blocks import Block
from .device import Device, Region
from .machine import Kernels, WebgpuMachine
from .memory import Data, Form, new_data
from .places import nbytes_of


class Loaded:
    """A plan with its constants and its memory for temporaries on a device."""

    def __init__(self, device: Device, plan: Plan, offsets: dict[Buffer, int], nbytes: int) -> None:
        self.device, self.plan = device, plan
        self.generation = device.generation
        self.kernels = Kernels(device, plan)
        self.forms = [Form.of(b.type.shape, b.dtype, device) for b in plan.program.outputs]  # type: ignore[arg-type]
        self.blocks: list[Block] = []  # kept as long as the program is
        self.constants = {}
        for program in plan.program.programs:
            for buffer in program.constants:
                assert buffer.array is not None, f"{buffer} has no numbers"
                words = device.layout.words(buffer.array)
                region = self._take(words.nbytes, "a constant")
                device.write(region, words, "a constant")
                self.constants[buffer] = Place(region)
        self.offsets, self.nbytes = offsets, nbytes
        self.whole, self.owned = self._temporaries()

    def _temporaries(self) -> tuple[Block, Places]:
        """Memory for all temporaries, and where in it each lies."""
        block = self.device.take(self.nbytes, f"the temporaries of {self.plan.program.name}")
        sizes = {b: nbytes_of(b, self.device.layout) for b in self.offsets}
        return block, {
            b: Place(Region(block.buffer, at, sizes[b])) for b, at in self.offsets.items()
        }

    def _take(self, nbytes: int, what: str) -> Region:
        block = self.device.take(nbytes, what)
        self.blocks.append(block)
        return Region(block.buffer, 0, nbytes)

    def run(self, inputs: Sequence[Data]) -> list[Data]:
        """Run the program; what it does is handed in, but perhaps not done."""
        outputs = [new_data(self.device, form) for form in self.forms]
        machine = WebgpuMachine(self.device, self.kernels)
        # another call may begin while the host computes, even by this thread
        _kept, owned = self._temporaries() if self.plan.calls_host else (self.whole, self.owned)
        runner = Runner(self.plan, machine, self.constants, owned)
        runner.run([Place(d.region) for d in inputs], [Place(d.region) for d in outputs], None)
        machine.submit()
        return outputs

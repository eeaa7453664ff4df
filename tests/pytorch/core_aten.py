"""Writes the names of core ATen's operators, for src/torch/core_aten.txt: `python core_aten.py > core_aten.txt`."""

import torch

names = set()
for name in dir(torch.ops.aten):
    packet = getattr(torch.ops.aten, name)
    if isinstance(packet, torch._ops.OpOverloadPacket):
        overloads = (getattr(packet, overload) for overload in packet.overloads())
        if any(torch.Tag.core in overload.tags for overload in overloads):
            names.add(f"aten.{name}")
print(f"# Operators of core ATen in PyTorch {torch.__version__.split('+')[0]}, by tests/pytorch/core_aten.py")
print("\n".join(sorted(names)))

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes safetensors files with the format's own library, which tests/io/safetensors.cpp and checkpoint.cpp read.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 safetensors==0.8.0
    venv/bin/python tests/golden/generate_safetensors.py

The entries of each tensor are described where it is written; the tests have them again.
"""

import pathlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


def bits(values, size):
    """A tensor of this type with these bits."""
    integers = {16: torch.int16, 32: torch.int32, 64: torch.int64}[size.itemsize * 8]
    wrapped = [v - (1 << size.itemsize * 8) if v >> (size.itemsize * 8 - 1) else v for v in values]
    return torch.tensor(wrapped, dtype=integers).view(size)


# All that can be written as well: the same content gives the same bytes.
save_file(
    {
        # 1, -0, the smallest denormal, the largest number, inf, a NaN with a payload
        "single": bits([0x3F800000, 0x80000000, 1, 0x7F7FFFFF, 0x7F800000, 0x7FC12345], torch.float32).reshape(2, 3),
        "double": bits([0x3FF0000000000000, 1 << 63, 1, 0xFFF0000000000000, 0x7FF8000000012345], torch.float64),
        "integer": torch.tensor([[-(1 << 63)], [(1 << 63) - 1]]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        'Größe "1"\n': torch.tensor([0.25], dtype=torch.float64),
    },
    HERE / "types.safetensors",
    metadata={"format": "pt"},
)

# 1, -2, the smallest denormal, the largest denormal, the smallest normal, the largest number, -0, -inf, a NaN
HALF = bits([0x3C00, 0xC000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x8000, 0xFC00, 0x7E01], torch.float16)
BRAIN = bits([0x3F80, 0xC000, 0x0001, 0x007F, 0x0080, 0x7F7F, 0x8000, 0xFF80, 0x7FC1], torch.bfloat16)
save_file(
    {
        "half": HALF,
        "half as float": HALF.float(),
        "brain": BRAIN,
        "brain as float": BRAIN.float(),
        "flags": torch.tensor([True, False, True]),
    },
    HERE / "half.safetensors",
)

# A model's state dict as PyTorch users save it, in half precision.
linear = torch.nn.Linear(3, 2)
with torch.no_grad():
    linear.weight.copy_(torch.arange(6).reshape(2, 3) / 8)
    linear.bias.copy_(torch.tensor([-1.5, 1024.0]))
save_file(linear.half().state_dict(), HERE / "linear.safetensors", metadata={"format": "pt"})

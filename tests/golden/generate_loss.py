#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes loss.json: PyTorch's cross-entropy with label smoothing and ignored targets, and an embedding that is scaled
and has sinusoidal positions, for tests/nn/cross_entropy.cpp and tests/nn/embedding.cpp.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 && venv/bin/python tests/golden/generate_loss.py
"""

import json
import math
import pathlib

import torch
from torch.nn import functional

B, S, V = 2, 4, 11
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def cross_entropy(logits, targets, smoothing):
    logits = logits.clone().requires_grad_()
    arguments = dict(ignore_index=-1, label_smoothing=smoothing)
    flat = logits.flatten(0, 1), targets.flatten()
    total = functional.cross_entropy(*flat, reduction="sum", **arguments)
    mean = functional.cross_entropy(*flat, **arguments)
    mean_gradient, = torch.autograd.grad(mean, logits, retain_graph=True)
    total.backward()
    return {"label_smoothing": smoothing, "targets": targets.tolist(), "sum": total.item(), "mean": mean.item(),
            "negative_log_likelihood": functional.cross_entropy(*flat, ignore_index=-1, reduction="sum").item(),
            "tokens": (targets != -1).sum().item(),
            "correct": (logits.argmax(-1) == targets).sum().item(),
            "dlogits_of_sum": logits.grad.flatten().tolist(), "dlogits_of_mean": mean_gradient.flatten().tolist()}


def sinusoids(positions, width):
    table = torch.zeros(positions, width)
    frequency = torch.exp(-math.log(10000.0) * torch.arange(0, width, 2) / width)
    angle = torch.arange(positions).unsqueeze(1) * frequency
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)[:, : width // 2]
    return table


def embedding(width, first):
    weight = torch.randn(5, width, requires_grad=True)
    tokens = torch.tensor([[4, 0, 4], [4, 1, 2]])
    x = functional.embedding(tokens, weight) * math.sqrt(width) + sinusoids(12, width)[first:first + 3]
    dx = torch.randn_like(x)
    x.backward(dx)
    return {"width": width, "first_position": first, "tokens": tokens.tolist(), "weight": weight.flatten().tolist(),
            "x": x.flatten().tolist(), "dx": dx.flatten().tolist(), "dweight": weight.grad.flatten().tolist()}


torch.manual_seed(1)
logits = 2.0 * torch.randn(B, S, V)
targets = torch.randint(V, (B, S))
targets[0, 2] = logits[0, 2].argmax()
some = targets.clone()
some[0, 1] = some[1, 0] = some[1, 3] = -1
result = {
    "shape": [B, S, V],
    "logits": logits.flatten().tolist(),
    "cross_entropy": [cross_entropy(logits, t, s) for t in (targets, some) for s in (0.0, 0.1, 1.0)],
    "embedding": [embedding(6, 0), embedding(5, 7)],
}
lines = [f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in result.items()]
(pathlib.Path(__file__).parent / "loss.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a golden file per placement that generate.py does not have: a small encoder, run and differentiated by PyTorch
from the formula in the placement's paper, and independently of the library. The files are as generate.py describes.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 && venv/bin/python tests/golden/generate_placements.py

Inputs and parameters are odd multiples of 1/128: float and double have the same, no factor is 0 or 1, and the files are
short. Learned factors lie away from the values at which a paper starts them, where some would hide mistakes.
"""

import math

import torch
from torch.nn import functional

from generate import B, D, EPSILON, H, L, S
from generate import attend, attention_shapes, configuration, draw, feed, feed_forward_shapes, write


def odd_multiple(values):
    return (2 * torch.floor(64 * values) + 1) / 128


def draw_factor(name, *shape):
    return (0.3 + 0.6 * torch.rand(*shape)) * torch.where(torch.rand(*shape) < 0.3, -1.0, 1.0)


class Parameters(dict):
    """By name; each is drawn when it is first asked for."""

    def ask(self, name, *shape, draw=draw):
        if name not in self:
            self[name] = odd_multiple(draw(name, *shape)).requires_grad_()
        return self[name]


# ---- norm kinds: (parameters, their prefix, values, epsilon) ---------------------------------------------------------

def layer_norm(p, prefix, x, epsilon):
    width = x.shape[-1]
    return functional.layer_norm(x, (width,), p.ask(f"{prefix}.gain", width), p.ask(f"{prefix}.bias", width), epsilon)


def unit_offset(p, prefix, x, epsilon):
    """LayerNorm of which the gain is 1 + w (Gemma); "gain" holds w."""
    width = x.shape[-1]
    w = p.ask(f"{prefix}.gain", width, draw=lambda name, *shape: draw(name, *shape) - 1.0)
    return functional.layer_norm(x, (width,), 1.0 + w, p.ask(f"{prefix}.bias", width), epsilon)


def scale_norm(p, prefix, x, epsilon):
    """g x / |x| (arXiv:1910.05895), g near sqrt(width). epsilon is added to the mean of the squares, as in RMSNorm."""
    width = x.shape[-1]
    g = p.ask(f"{prefix}.gain", 1, draw=lambda name, *shape: math.sqrt(width) * draw(name, *shape))
    return g * x / torch.sqrt((x * x).sum(-1, keepdim=True) + width * epsilon)


def dyt(p, prefix, x, epsilon):
    """gain o tanh(alpha x) + bias (arXiv:2503.10622)."""
    width = x.shape[-1]
    gain, bias = p.ask(f"{prefix}.gain", width), p.ask(f"{prefix}.bias", width)
    return gain * torch.tanh(p.ask(f"{prefix}.alpha", 1, draw=draw_factor) * x) + bias


def centre(p, prefix, x, epsilon):
    """CenterNorm (arXiv:2304.09856): D / (D - 1) gain o (x - mean(x)) + bias."""
    width = x.shape[-1]
    gain, bias = p.ask(f"{prefix}.gain", width), p.ask(f"{prefix}.bias", width)
    return width / (width - 1) * gain * (x - x.mean(-1, keepdim=True)) + bias


def unit(p, prefix, x, epsilon):
    """x / |x| (arXiv:2410.01131)."""
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + epsilon)


KINDS = {"layer-norm": layer_norm, "unit-offset": unit_offset, "scale-norm": scale_norm, "dyt": dyt, "centre": centre,
         "unit": unit}


# ---- a stack of blocks -----------------------------------------------------------------------------------------------

class Block:
    """A sublayer f, its norms and its learned factors."""

    def __init__(self, stack, layer, attention):
        self.stack, self.p, self.layers = stack, stack.p, stack.layers
        self.layer, self.attention = layer, attention  # layer counts from 1
        self.prefix = f"layers.{layer - 1}.{'attention' if attention else 'feed_forward'}."
        for name, shape in attention_shapes(self.prefix) if attention else feed_forward_shapes(self.prefix):
            self.p.ask(name, *shape)

    def f(self, x, *inside):
        """inside: what is applied within the sublayer, of "query_norm", "key_norm", "value_norm",
        "query_key_scale", "head_scale", "heads_norm" and "hidden_norm"; where a block does not have the place, nothing is."""

        def inner(place, values):
            if place == "head" and "head_scale" in inside:
                return self.p.ask(f"{self.prefix}head_scale", H, draw=draw_factor).view(H, 1, 1) * values
            if f"{place}_norm" in inside:
                values = self.norm(values, f"{place}_norm")
            if place in ("query", "key") and "query_key_scale" in inside:
                # The paper's s_qk, and scores times sqrt(K): the library has its sqrt(K) in the parameter.
                K = D // H
                s_qk = self.p.ask(f"{self.prefix}query_key_scale", D, draw=draw_factor).view(H, 1, K) / math.sqrt(K)
                values = s_qk * values * (K if place == "query" else 1)  # attend has divided the scores by sqrt(K)
            return values

        if self.attention:
            return attend(x, x, self.p, self.prefix, inner=inner)
        return feed(x, self.p, self.prefix, functional.relu, inner)

    def norm(self, x, name="norm"):
        return self.stack.norm(self.prefix + name, x)

    def scalar(self, name):
        return self.p.ask(self.prefix + name, 1, draw=draw_factor)

    def gate(self, name):  # one factor per channel
        return self.p.ask(self.prefix + name, D, draw=draw_factor)


class Stack:
    def __init__(self, p, layers=L, norm="layer-norm", epsilon=EPSILON):
        self.p, self.layers, self.kind, self.epsilon = p, layers, KINDS[norm], epsilon
        self.pairs = [(Block(self, layer, True), Block(self, layer, False)) for layer in range(1, layers + 1)]
        self.blocks = [block for pair in self.pairs for block in pair]

    def norm(self, prefix, x):
        return self.kind(self.p, prefix, x, self.epsilon)

    def final_norm(self, x):
        return self.norm("final_norm", x)


# ---- placements: (stack, input) to output ----------------------------------------------------------------------------

def each_block(formula, final_norm=True):
    """One stream, and the formula of (block, stream) for every sublayer."""

    def run(stack, x):
        for block in stack.blocks:
            x = formula(block, x)
        return stack.final_norm(x) if final_norm else x

    return run


def pre_ln(b, x, *inside):
    return x + b.f(b.norm(x), *inside)


def keel(b, x):
    return b.norm(2 * b.layers * x + b.f(b.norm(x, "norm_in")), "norm_out")


def keel_first_pre_ln(b, x):  # the paper's section 3.1
    return x + b.f(b.norm(x, "norm_in")) if b.layer == 1 else keel(b, x)


def norm_former(b, x):
    if b.attention:
        return x + b.norm(b.f(b.norm(x, "norm_in"), "head_scale"), "norm_out")
    return x + b.f(b.norm(x, "norm_in"), "hidden_norm")


QKV_NORM = "query_norm", "key_norm", "value_norm"


def hybrid_norm(b, x):
    if b.attention:
        return x + b.f(x, *QKV_NORM)
    y = b.norm(x)
    return b.f(y) + y


def hybrid_norm_star(b, x):
    return pre_ln(b, x, *QKV_NORM) if b.layer == 1 else hybrid_norm(b, x)


def rezero(stack, x):
    for attention, feed_forward in stack.pairs:
        a = attention.scalar("a")
        x = x + a * attention.f(x)
        x = x + a * feed_forward.f(x)
    return x


def ngpt(b, x):
    return b.norm(x + b.gate("alpha") * (b.norm(b.f(x, "query_norm", "key_norm", "query_key_scale"), "branch") - x))


def parallel(stack, x):
    for attention, feed_forward in stack.pairs:
        x = x + attention.f(attention.norm(x)) + feed_forward.f(feed_forward.norm(x))
    return stack.final_norm(x)


def parallel_one_norm(stack, x):
    for attention, feed_forward in stack.pairs:
        y = attention.norm(x)
        x = x + attention.f(y) + feed_forward.f(y)
    return stack.final_norm(x)


def resi_dual(stack, x):
    r = x
    for b in stack.blocks:
        y = b.f(x)
        x, r = b.norm(x + y), r + y
    return x + stack.final_norm(r)


def b2t(stack, x):
    for attention, feed_forward in stack.pairs:
        layer_input = x
        x = attention.norm(x + attention.f(x))
        x = feed_forward.norm(x + feed_forward.f(x) + layer_input)
    return x


def hyper_connections(stack, x):
    """Static, with as many streams as there are numbers here."""
    streams = 0, 1
    h = [x for _ in streams]
    for b in stack.blocks:
        y = b.f(b.norm(sum(b.scalar(f"in{i}") * h[i] for i in streams)))
        h = [sum(b.scalar(f"mix{i}{j}") * h[j] for j in streams) + b.scalar(f"out{i}") * y for i in streams]
    return stack.final_norm(sum(h))


PLACEMENTS = {
    "pre-ln": each_block(pre_ln),
    "mix-ln": each_block(lambda b, x: b.norm(x + b.f(x)) if b.layer <= b.layers // 4 else pre_ln(b, x)),
    "keel": each_block(keel, False),
    "keel-first-pre-ln": each_block(keel_first_pre_ln, False),
    "admin": each_block(lambda b, x: b.norm(b.gate("omega") * x + b.f(x)), False),
    "skip-init": each_block(lambda b, x: x + b.scalar("a") * b.f(x), False),
    "rezero": rezero,
    "layer-scale": each_block(lambda b, x: x + b.gate("lambda") * b.f(b.norm(x))),
    "depth-scaled": each_block(lambda b, x: x + b.f(b.norm(x)) / math.sqrt(2 * b.layers)),
    "lips-former": each_block(lambda b, x: x + b.gate("a") * b.f(b.norm(x)), False),
    "lips-former-post": each_block(lambda b, x: b.norm(x + b.gate("a") * b.f(x))),
    "sub-ln": each_block(lambda b, x: pre_ln(b, x, "heads_norm", "hidden_norm")),
    "norm-former": each_block(norm_former),
    "hybrid-norm": each_block(hybrid_norm),
    "hybrid-norm-star": each_block(hybrid_norm_star),
    "parallel": parallel,
    "parallel-one-norm": parallel_one_norm,
    "qk-norm": each_block(lambda b, x: pre_ln(b, x, "query_norm", "key_norm")),
    "resi-dual": resi_dual,
    "b2t": b2t,
    "hyper-connections": hyper_connections,
    "ngpt": each_block(ngpt, False),
}


def compute(seed, placement, **options):
    torch.manual_seed(seed)
    x, dy = odd_multiple(torch.randn(B, S, D)).requires_grad_(), odd_multiple(torch.randn(B, S, D))
    p = Parameters()
    y = PLACEMENTS[placement](Stack(p, **options), x)
    y.backward(dy)
    return {"x": x, **p, "y": y, "dy": dy, "dx": x.grad, **{f"grad.{name}": t.grad for name, t in p.items()}}


def twelve_digits(tensor):
    return torch.tensor([float(f"{value:.12g}") for value in tensor.flatten().tolist()]).reshape(tensor.shape)


# (file, placement, seed, other changes of the configuration). The seeds are of draws of which no gradient is a
# difference of nearly equal numbers: float shows those to 1e-5 of their terms only.
CASES = [
    ("mix-ln", "mix-ln", 20, {"layers": 4}),
    ("keel", "keel", 27, {}),
    ("keel-first-pre-ln", "keel-first-pre-ln", 36, {}),
    ("admin", "admin", 35, {}),
    ("skip-init", "skip-init", 24, {}),
    ("rezero", "rezero", 27, {}),
    ("layer-scale", "layer-scale", 25, {}),
    ("depth-scaled", "depth-scaled", 25, {}),
    ("lips-former", "lips-former", 11, {"norm": "centre"}),
    ("lips-former-post", "lips-former-post", 12, {"norm": "centre"}),
    ("sub-ln", "sub-ln", 26, {}),
    ("norm-former", "norm-former", 13, {}),
    ("hybrid-norm", "hybrid-norm", 27, {}),
    ("hybrid-norm-star", "hybrid-norm-star", 28, {}),
    ("parallel", "parallel", 36, {}),
    ("parallel-one-norm", "parallel-one-norm", 24, {}),
    ("qk-norm", "qk-norm", 7, {}),
    ("resi-dual", "resi-dual", 27, {}),
    ("b2t", "b2t", 22, {}),
    # The first norm's input is a multiple of x: only epsilon lets the gradients of in0 and in1 differ from 0 there.
    ("hyper-connections", "hyper-connections", 37, {"epsilon": 0.1}),
    ("ngpt", "ngpt", 30, {"norm": "unit"}),
    ("pre-ln-scale-norm", "pre-ln", 30, {"norm": "scale-norm"}),
    ("pre-ln-dyt", "pre-ln", 28, {"norm": "dyt"}),
    ("pre-ln-unit-offset", "pre-ln", 19, {"norm": "unit-offset"}),
]

if __name__ == "__main__":
    for file, placement, seed, changes in CASES:
        tensors = compute(seed, placement, **changes)
        write(file, configuration(placement=placement, **changes), {n: twelve_digits(t) for n, t in tensors.items()})

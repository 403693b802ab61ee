#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a golden file for each placement whose constants know both stacks of an encoder-decoder: L encoder layers and
another number M of decoder layers, from tokens to logits, by PyTorch and the papers' formulas. The files are as
generate.py describes; "gains" are the factors on the Xavier standard deviation of every matrix.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 && venv/bin/python tests/golden/generate_encoder_decoder.py
"""

import math

import torch
from torch.nn import functional

from generate import write
from generate_placements import Parameters, odd_multiple, twelve_digits

B, SOURCE, TARGET, D, H, F, L, M, V = 2, 3, 2, 4, 2, 5, 2, 3, 5
EPSILON = 1e-5
SCALED = "value", "out", "linear1", "linear2"

# ---- the papers' constants -------------------------------------------------------------------------------------------


def deep_norm_alpha(stack):
    """arXiv:2203.00555, figure 2."""
    return 0.81 * (L**4 * M) ** (1 / 16) if stack == "encoder" else (3 * M) ** (1 / 4)


def deep_norm_gain(stack, block, matrix):
    if matrix not in SCALED:
        return 1.0
    return 0.87 * (L**4 * M) ** (-1 / 16) if stack == "encoder" else (12 * M) ** (-1 / 4)


def sub_ln_gain(stack, block, matrix):
    """arXiv:2210.06423, figure 2; cross-attention has neither the gain nor the inner norm."""
    if matrix not in SCALED or block == "cross_attention":
        return 1.0
    return math.sqrt(math.log(3 * M) * math.log(2 * L) / 3) if stack == "encoder" else math.sqrt(math.log(3 * M))


def t_fixup_gain(stack, block, matrix):
    """Huang et al. 2020, section 3.2, which has as many layers in either stack: each stack's own number here."""
    if matrix == "token_embedding":
        return (9 * (L if stack == "source" else M)) ** (-1 / 4)
    if matrix not in SCALED:
        return 1.0
    return 0.67 * L ** (-1 / 4) if stack == "encoder" else (9 * M) ** (-1 / 4)


# ---- the model -------------------------------------------------------------------------------------------------------


class Model:
    def __init__(self, placement, gain):
        self.placement, self.gain, self.p, self.gains = placement, gain, Parameters(), {}

    def matrix(self, stack, prefix, block, name, *shape):
        self.gains[f"{prefix}{name}.weight"] = self.gain(stack, block, name)
        return self.p.ask(f"{prefix}{name}.weight", *shape)

    def norm(self, prefix, x):
        width = x.shape[-1]
        gain, bias = self.p.ask(f"{prefix}.gain", width), self.p.ask(f"{prefix}.bias", width)
        return functional.layer_norm(x, (width,), gain, bias, EPSILON)

    def table(self, stack):
        return self.matrix(stack, f"{stack}.", "", "token_embedding", V, D)

    def embed(self, stack, tokens):
        position, column = torch.arange(tokens.shape[1])[:, None], torch.arange(D)[None, :]
        angle = position / 10000 ** ((column - column % 2) / D)
        return math.sqrt(D) * self.table(stack)[tokens] + torch.where(column % 2 == 0, angle.sin(), angle.cos())

    def residual(self, stack, prefix, x, f):
        if self.placement == "deep-norm":
            return self.norm(f"{prefix}norm", deep_norm_alpha(stack) * x + f(x))
        return x + f(self.norm(f"{prefix}norm", x)) if self.placement == "sub-ln" else x + f(x)

    def block(self, stack, layer, block, x, memory=None, causal=False):
        prefix = f"{stack}.layers.{layer}.{block}."

        def linear(name, values, out):
            weight = self.matrix(stack, prefix, block, name, out, values.shape[-1])
            return functional.linear(values, weight, self.p.ask(f"{prefix}{name}.bias", out))

        def heads(name, values):
            return linear(name, values, D).unflatten(-1, (H, D // H)).transpose(1, 2)

        def attention(h):
            source = h if memory is None else memory
            mixed = functional.scaled_dot_product_attention(heads("query", h), heads("key", source),
                                                            heads("value", source), is_causal=causal)
            mixed = mixed.transpose(1, 2).flatten(2)
            if self.placement == "sub-ln" and memory is None:
                mixed = self.norm(f"{prefix}heads_norm", mixed)
            return linear("out", mixed, D)

        def feed_forward(h):
            hidden = linear("linear1", h, F).relu()
            if self.placement == "sub-ln":
                hidden = self.norm(f"{prefix}hidden_norm", hidden)
            return linear("linear2", hidden, D)

        return self.residual(stack, prefix, x, feed_forward if block == "feed_forward" else attention)

    def end(self, stack, x):
        return self.norm(f"{stack}.final_norm", x) if self.placement == "sub-ln" else x

    def logits(self, source, target):
        memory = self.embed("source", source)
        for layer in range(L):
            memory = self.block("encoder", layer, "attention", memory)
            memory = self.block("encoder", layer, "feed_forward", memory)
        memory, y = self.end("encoder", memory), self.embed("target", target)
        for layer in range(M):
            y = self.block("decoder", layer, "self_attention", y, causal=True)
            y = self.block("decoder", layer, "cross_attention", y, memory)
            y = self.block("decoder", layer, "feed_forward", y)
        return functional.linear(self.end("decoder", y), self.table("target"))


if __name__ == "__main__":
    for seed, (placement, gain) in enumerate({"deep-norm": deep_norm_gain, "sub-ln": sub_ln_gain,
                                              "t-fixup": t_fixup_gain}.items()):
        torch.manual_seed(seed)
        source, target = torch.randint(V, (B, SOURCE)), torch.randint(V, (B, TARGET))
        model = Model(placement, gain)
        logits, dlogits = model.logits(source, target), odd_multiple(torch.randn(B, TARGET, V))
        logits.backward(dlogits)
        config = {"model": "transformer", "placement": placement, "width": D, "heads": H, "feed_forward": F,
                  "encoder_layers": L, "decoder_layers": M, "vocabulary": V, "epsilon": EPSILON,
                  "source": source.tolist(), "target": target.tolist(), "gains": model.gains}
        tensors = {**model.p, "logits": logits, "dlogits": dlogits,
                   **{f"grad.{name}": tensor.grad for name, tensor in model.p.items()}}
        write(f"{placement}-encoder-decoder", config, {n: twelve_digits(t) for n, t in tensors.items()})

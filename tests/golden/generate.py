#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the golden files: small models run and differentiated by PyTorch, which tests/nn/golden.cpp compares.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 && venv/bin/python tests/golden/generate.py

Inputs and parameters are drawn from a seed per file, in double precision, so a file changes only when its case does
(the last digit of a result may differ between machines). Each is {"config": {...}, "tensors": {name: {"shape": [...],
"data": [...]}}}, with the input x, every parameter under the library's name, the output y, the upstream gradient dy,
dx, and "grad.<name>".

Post-LN and Pre-LN are torch.nn.TransformerEncoder itself. It has no other placement, so those are written here from
the papers' formulas, and independently of the library.
"""

import json
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).parent
B, S, D, H, F, L, V, MEMORY = 2, 3, 6, 2, 8, 2, 7, 4
EPSILON = 1e-5
PADDING = [[False, False, True], [False, False, False]]  # True: not a token

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def draw(name, *shape):
    """Values that hide no mistake: no gain is 1, no bias 0, no two matrices are alike. They are small enough that no
    softmax saturates: its gradients would be differences of nearly equal numbers, which float cannot show."""
    values = torch.randn(*shape)
    if name.endswith("gain"):
        return 1.0 + 0.3 * values
    return (0.3 if name.endswith("bias") else 0.35) * values


def attention_shapes(prefix):
    for name in ("query", "key", "value", "out"):
        yield f"{prefix}{name}.weight", (D, D)
        yield f"{prefix}{name}.bias", (D,)


def feed_forward_shapes(prefix):
    yield f"{prefix}linear1.weight", (F, D)
    yield f"{prefix}linear1.bias", (F,)
    yield f"{prefix}linear2.weight", (D, F)
    yield f"{prefix}linear2.bias", (D,)


def encoder_shapes(norms, final_norm):
    for layer in range(L):
        attention, feed_forward = f"layers.{layer}.attention.", f"layers.{layer}.feed_forward."
        yield from attention_shapes(attention)
        yield from feed_forward_shapes(feed_forward)
        for prefix in (attention, feed_forward):
            for norm in norms:
                yield f"{prefix}{norm}.gain", (D,)
                yield f"{prefix}{norm}.bias", (D,)
    if final_norm:
        yield "final_norm.gain", (D,)
        yield "final_norm.bias", (D,)


def draw_parameters(shapes):
    return {name: draw(name, *shape).requires_grad_() for name, shape in shapes}


def write(name, config, tensors):
    lines = []
    for key, tensor in tensors.items():
        tensor = tensor.detach()
        entry = {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}
        lines.append(f"    {json.dumps(key)}: {json.dumps(entry, separators=(',', ':'))}")
    text = '{\n  "config": ' + json.dumps(config) + ',\n  "tensors": {\n' + ",\n".join(lines) + "\n  }\n}\n"
    (HERE / f"{name}.json").write_text(text)
    print(f"{name}.json: {len(text)} bytes, {len(tensors)} tensors")


def configuration(**changes):
    return {"model": "encoder", "placement": "pre-ln", "norm": "layer-norm", "activation": "relu", "batch": B,
            "sequence": S, "width": D, "heads": H, "feed_forward": F, "layers": L, "epsilon": EPSILON,
            "causal": False, "key_padding": None} | changes


# ---- torch.nn.TransformerEncoder -------------------------------------------------------------------------------------

TORCH_NAMES = {
    "self_attn.out_proj.weight": "attention.out.weight", "self_attn.out_proj.bias": "attention.out.bias",
    "norm1.weight": "attention.norm.gain", "norm1.bias": "attention.norm.bias",
    "linear1.weight": "feed_forward.linear1.weight", "linear1.bias": "feed_forward.linear1.bias",
    "linear2.weight": "feed_forward.linear2.weight", "linear2.bias": "feed_forward.linear2.bias",
    "norm2.weight": "feed_forward.norm.gain", "norm2.bias": "feed_forward.norm.bias",
}  # fmt: skip


def torch_parameters(encoder):
    """Yields (torch's parameter, the library's names of its parts): q, k and v are one matrix in torch."""
    for name, parameter in encoder.named_parameters():
        if name.startswith("norm."):
            yield parameter, ["final_norm.gain" if name.endswith("weight") else "final_norm.bias"]
            continue
        _, layer, rest = name.split(".", 2)
        if rest.startswith("self_attn.in_proj_"):
            kind = rest.removeprefix("self_attn.in_proj_")
            yield parameter, [f"layers.{layer}.attention.{part}.{kind}" for part in ("query", "key", "value")]
        else:
            yield parameter, [f"layers.{layer}.{TORCH_NAMES[rest]}"]


def torch_encoder(name, seed, placement, activation, causal=False, key_padding=None):
    torch.manual_seed(seed)
    pre_ln = placement == "pre-ln"
    parameters = draw_parameters(encoder_shapes(["norm"], final_norm=pre_ln))
    layer = nn.TransformerEncoderLayer(D, H, F, dropout=0.0, activation=activation, layer_norm_eps=EPSILON,
                                       batch_first=True, norm_first=pre_ln)
    encoder = nn.TransformerEncoder(layer, L, norm=nn.LayerNorm(D, EPSILON) if pre_ln else None,
                                    enable_nested_tensor=False)
    with torch.no_grad():
        for parameter, names in torch_parameters(encoder):
            parameter.copy_(torch.cat([parameters[n] for n in names]))
    x, dy = torch.randn(B, S, D, requires_grad=True), torch.randn(B, S, D)
    y = encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(S) if causal else None, is_causal=causal,
                src_key_padding_mask=torch.tensor(key_padding) if key_padding else None)
    y.backward(dy)
    gradients = {}
    for parameter, names in torch_parameters(encoder):
        for part, gradient in zip(names, parameter.grad.chunk(len(names))):
            gradients[f"grad.{part}"] = gradient
    write(name, configuration(placement=placement, activation=activation, causal=causal, key_padding=key_padding),
          {"x": x, **parameters, "y": y, "dy": dy, "dx": x.grad, **gradients})


# ---- from the formulas -----------------------------------------------------------------------------------------------

def unchanged(name, values):
    return values


def attend(x, memory, p, prefix, causal=False, inner=unchanged):
    """inner(name, values) is applied to the parts' heads ("query", "key", "value"), to the heads' outputs ("head"), all
    (B, H, S, D / H), and to these side by side ("heads", (B, S, D))."""

    def heads(part, source):
        projected = functional.linear(source, p[f"{prefix}{part}.weight"], p[f"{prefix}{part}.bias"])
        return inner(part, projected.view(B, -1, H, D // H).transpose(1, 2))

    scores = heads("query", x) @ heads("key", memory).transpose(2, 3) / math.sqrt(D // H)
    if causal:
        scores = scores.masked_fill(torch.ones(S, S, dtype=torch.bool).triu(1), -math.inf)
    mixed = inner("head", scores.softmax(-1) @ heads("value", memory)).transpose(1, 2).reshape(B, -1, D)
    return functional.linear(inner("heads", mixed), p[f"{prefix}out.weight"], p[f"{prefix}out.bias"])


def feed(x, p, prefix, phi, inner=unchanged):
    """inner("hidden", values) is applied after the activation."""
    hidden = phi(functional.linear(x, p[f"{prefix}linear1.weight"], p[f"{prefix}linear1.bias"]))
    return functional.linear(inner("hidden", hidden), p[f"{prefix}linear2.weight"], p[f"{prefix}linear2.bias"])


def layer_norm(x, gain, bias):
    return functional.layer_norm(x, (D,), gain, bias, EPSILON)


def rms_norm(x, gain, bias):
    return functional.rms_norm(x, (D,), gain, EPSILON) + bias


# Each formula of (x, sublayer, norm by name, layer counted from 1), its norms, and whether a final norm follows.
FORMULAS = {
    "pre-ln": (lambda x, f, n, l: x + f(n("norm", x)), ["norm"], True),
    "none": (lambda x, f, n, l: x + f(x), [], False),
    "res-post-norm": (lambda x, f, n, l: x + n("norm", f(x)), ["norm"], True),
    "peri-ln": (lambda x, f, n, l: x + n("norm_out", f(n("norm_in", x))), ["norm_out", "norm_in"], True),
    "deep-norm": (lambda x, f, n, l: n("norm", (2 * L) ** 0.25 * x + f(x)), ["norm"], False),
    "ln-scaling": (lambda x, f, n, l: x + f(n("norm", x) / math.sqrt(l)), ["norm"], True),
}


def run_formula(placement, p, x, activation, norm, causal):
    formula, _, final_norm = FORMULAS[placement]
    phi = {"relu": functional.relu, "gelu": functional.gelu}[activation]
    for layer in range(L):
        attention, feed_forward = f"layers.{layer}.attention.", f"layers.{layer}.feed_forward."

        def attention_sublayer(h):
            return attend(h, h, p, attention, causal)

        def feed_forward_sublayer(h):
            return feed(h, p, feed_forward, phi)

        for prefix, sublayer in ((attention, attention_sublayer), (feed_forward, feed_forward_sublayer)):
            x = formula(x, sublayer, lambda n, h: norm(h, p[f"{prefix}{n}.gain"], p[f"{prefix}{n}.bias"]), layer + 1)
    return norm(x, p["final_norm.gain"], p["final_norm.bias"]) if final_norm else x


def formula_encoder(name, seed, placement, activation="relu", norm="layer-norm", causal=False):
    torch.manual_seed(seed)
    _, norms, final_norm = FORMULAS[placement]
    p = draw_parameters(encoder_shapes(norms, final_norm))
    x, dy = torch.randn(B, S, D, requires_grad=True), torch.randn(B, S, D)
    y = run_formula(placement, p, x, activation, rms_norm if norm == "rms-norm" else layer_norm, causal)
    y.backward(dy)
    write(name, configuration(placement=placement, activation=activation, norm=norm, causal=causal),
          {"x": x, **p, "y": y, "dy": dy, "dx": x.grad, **{f"grad.{n}": t.grad for n, t in p.items()}})


def language_model(name, seed):
    """Token and position embedding, a causal Pre-LN encoder, the readout, and the mean cross-entropy."""
    torch.manual_seed(seed)
    tables = [("token_embedding.weight", (V, D)), ("position_embedding.weight", (S, D)), ("readout.weight", (V, D))]
    p = draw_parameters([*tables, *encoder_shapes(["norm"], final_norm=True)])
    tokens, targets = torch.randint(V, (B, S)), torch.randint(V, (B, S))
    x = p["token_embedding.weight"][tokens] + p["position_embedding.weight"]
    y = run_formula("pre-ln", p, x, "gelu", layer_norm, causal=True)
    logits = functional.linear(y, p["readout.weight"])
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    config = configuration(model="language-model", activation="gelu", causal=True, vocabulary=V,
                           tokens=tokens.tolist(), targets=targets.tolist())
    write(name, config, {**p, "x": x, "logits": logits, "loss": loss.reshape(1),
                         **{f"grad.{n}": t.grad for n, t in p.items()}})


def cross_attention(name, seed):
    """torch.nn.MultiheadAttention with a memory of another length than x."""
    torch.manual_seed(seed)
    p = draw_parameters(attention_shapes(""))
    attention = nn.MultiheadAttention(D, H, batch_first=True)
    parts = ("query", "key", "value")
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([p[f"{part}.weight"] for part in parts]))
        attention.in_proj_bias.copy_(torch.cat([p[f"{part}.bias"] for part in parts]))
        attention.out_proj.weight.copy_(p["out.weight"])
        attention.out_proj.bias.copy_(p["out.bias"])
    x, memory = torch.randn(B, S, D, requires_grad=True), torch.randn(B, MEMORY, D, requires_grad=True)
    dy = torch.randn(B, S, D)
    y, _ = attention(x, memory, memory, need_weights=False)
    y.backward(dy)
    gradients = {}
    for part, weight, bias in zip(parts, attention.in_proj_weight.grad.chunk(3), attention.in_proj_bias.grad.chunk(3)):
        gradients |= {f"grad.{part}.weight": weight, f"grad.{part}.bias": bias}
    gradients |= {"grad.out.weight": attention.out_proj.weight.grad, "grad.out.bias": attention.out_proj.bias.grad}
    write(name, {"model": "cross-attention", "width": D, "heads": H},
          {"x": x, "memory": memory, **p, "y": y, "dy": dy, "dx": x.grad, "dmemory": memory.grad, **gradients})


# ---- torch.nn.TransformerEncoder and torch.nn.TransformerDecoder: the encoder-decoder ---------------------------------

TORCH_DECODER_NAMES = {
    "self_attn.out_proj.weight": "self_attention.out.weight", "self_attn.out_proj.bias": "self_attention.out.bias",
    "multihead_attn.out_proj.weight": "cross_attention.out.weight",
    "multihead_attn.out_proj.bias": "cross_attention.out.bias",
    "norm1.weight": "self_attention.norm.gain", "norm1.bias": "self_attention.norm.bias",
    "norm2.weight": "cross_attention.norm.gain", "norm2.bias": "cross_attention.norm.bias",
    "linear1.weight": "feed_forward.linear1.weight", "linear1.bias": "feed_forward.linear1.bias",
    "linear2.weight": "feed_forward.linear2.weight", "linear2.bias": "feed_forward.linear2.bias",
    "norm3.weight": "feed_forward.norm.gain", "norm3.bias": "feed_forward.norm.bias",
}  # fmt: skip


def torch_decoder_parameters(decoder):
    for name, parameter in decoder.named_parameters():
        if name.startswith("norm."):
            yield parameter, ["final_norm.gain" if name.endswith("weight") else "final_norm.bias"]
            continue
        _, layer, rest = name.split(".", 2)
        for module, block in (("self_attn", "self_attention"), ("multihead_attn", "cross_attention")):
            if rest.startswith(f"{module}.in_proj_"):
                kind = rest.removeprefix(f"{module}.in_proj_")
                yield parameter, [f"layers.{layer}.{block}.{part}.{kind}" for part in ("query", "key", "value")]
                break
        else:
            yield parameter, [f"layers.{layer}.{TORCH_DECODER_NAMES[rest]}"]


def sinusoids(length):
    position, column = torch.arange(length)[:, None], torch.arange(D)[None, :]
    angle = position / 10000 ** ((column - column % 2) / D)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def transformer(name, seed, encoder_placement, decoder_placement, tied):
    """Tokens to loss; the decoder's input is shifted by the caller. Where nothing is tied, the source vocabulary is
    another one."""
    torch.manual_seed(seed)
    source_vocabulary = V if tied == "everything" else V + 2
    kinds = {"batch_first": True, "dropout": 0.0, "layer_norm_eps": EPSILON}
    pre_encoder, pre_decoder = encoder_placement == "pre-ln", decoder_placement == "pre-ln"
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, F, norm_first=pre_encoder, **kinds), L,
                                    norm=nn.LayerNorm(D, EPSILON) if pre_encoder else None,
                                    enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D, H, F, norm_first=pre_decoder, **kinds), L,
                                    norm=nn.LayerNorm(D, EPSILON) if pre_decoder else None)
    walks = [("encoder.", torch_parameters(encoder)), ("decoder.", torch_decoder_parameters(decoder))]
    walks = [(prefix, list(walk)) for prefix, walk in walks]
    tables = {"target.token_embedding.weight": (V, D)}
    if tied != "everything":
        tables["source.token_embedding.weight"] = (source_vocabulary, D)
    if tied == "none":
        tables["readout.weight"] = (V, D)
    p = draw_parameters(tables.items())
    parts = {}
    with torch.no_grad():
        for prefix, walk in walks:
            for parameter, names in walk:
                for part, values in zip(names, parameter.chunk(len(names))):
                    values.copy_(draw(part, *values.shape))
                    parts[prefix + part] = values.clone()
    target_table = p["target.token_embedding.weight"]
    source, target, targets = (torch.randint(v, (B, n)) for v, n in ((source_vocabulary, MEMORY), (V, S), (V, S)))
    targets[1, 2] = -1
    padding = torch.tensor([[False, False, True, True], [False, False, False, False]])
    embed = lambda table, ids: math.sqrt(D) * table[ids] + sinusoids(ids.shape[1])
    memory = encoder(embed(p.get("source.token_embedding.weight", target_table), source), src_key_padding_mask=padding)
    y = decoder(embed(target_table, target), memory, tgt_mask=nn.Transformer.generate_square_subsequent_mask(S),
                tgt_is_causal=True, memory_key_padding_mask=padding)
    logits = functional.linear(y, p.get("readout.weight", target_table))
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, label_smoothing=0.1,
                                    reduction="sum")
    loss.backward()
    gradients = {n: t.grad for n, t in p.items()}
    for prefix, walk in walks:
        for parameter, names in walk:
            gradients |= {prefix + part: g for part, g in zip(names, parameter.grad.chunk(len(names)))}
    config = {"model": "transformer", "encoder": encoder_placement, "decoder": decoder_placement, "tied": tied,
              "width": D, "heads": H, "feed_forward": F, "layers": L, "epsilon": EPSILON, "label_smoothing": 0.1,
              "source_vocabulary": source_vocabulary, "target_vocabulary": V, "source": source.tolist(),
              "padding": padding.tolist(), "target": target.tolist(), "targets": targets.tolist()}
    write(name, config, {**p, **parts, "logits": logits, "loss": loss.reshape(1),
                         **{f"grad.{n}": t for n, t in gradients.items()}})


if __name__ == "__main__":
    seed = 0
    for placement in ("pre-ln", "post-ln"):
        torch_encoder(f"{placement}-relu", seed + 1, placement, "relu")
        torch_encoder(f"{placement}-gelu", seed + 2, placement, "gelu")
        torch_encoder(f"{placement}-causal", seed + 3, placement, "relu", causal=True)
        torch_encoder(f"{placement}-padding", seed + 4, placement, "gelu", key_padding=PADDING)
        seed += 4
    formula_encoder("pre-ln-rms-norm", 11, "pre-ln", norm="rms-norm")
    formula_encoder("none", 12, "none", activation="gelu")
    formula_encoder("res-post-norm", 13, "res-post-norm")
    formula_encoder("peri-ln", 14, "peri-ln", activation="gelu", causal=True)
    formula_encoder("deep-norm", 15, "deep-norm")
    formula_encoder("ln-scaling", 16, "ln-scaling", activation="gelu")
    language_model("language-model", 17)
    cross_attention("cross-attention", 18)
    # Draws of which no gradient is a difference of nearly equal numbers: float shows those to 1e-5 of their terms only.
    transformer("transformer-post-ln", 23, "post-ln", "post-ln", "everything")
    transformer("transformer-mixed", 24, "post-ln", "pre-ln", "none")

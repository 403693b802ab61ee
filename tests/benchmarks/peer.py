# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's side of ./compare: the same names, modes and answers as the program `benchmarks` (see main.cpp).

Each function makes its data once and returns one iteration. Where PyTorch leaves a choice, it has the faster one:
gradients of inputs are not accumulated, norms and softmax run without recording, heads are contiguous.
"""

import json
import re
import signal
import statistics
import sys
import time

signal.signal(signal.SIGINT, signal.SIG_DFL)  # ./compare says that it was interrupted; this side ends in silence

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


def step(norm_first):
    def make(batch, length, width, heads, feed_forward):
        layer = nn.TransformerEncoderLayer(
            width, heads, feed_forward, dropout=0.0, batch_first=True, norm_first=norm_first
        ).train()
        x = torch.randn(batch, length, width, requires_grad=True)
        dy = torch.randn(batch, length, width)

        def iteration():
            layer.zero_grad(set_to_none=False)
            x.grad = None
            layer(x).backward(dy)

        return iteration

    return make


def norm_forward(rows, width):
    x, gain, bias = torch.randn(rows, width), torch.ones(width), torch.zeros(width)
    return torch.no_grad()(lambda: functional.layer_norm(x, (width,), gain, bias))


def norm_backward(rows, width):
    x, dy, gain, bias = torch.randn(rows, width), torch.randn(rows, width), torch.ones(width), torch.zeros(width)
    _, mean, inverse_deviation = torch.native_layer_norm(x, (width,), gain, bias, 1e-5)
    backward = torch.ops.aten.native_layer_norm_backward
    return lambda: backward(dy, x, (width,), mean, inverse_deviation, gain, bias, (True, True, True))


def softmax(rows, columns):
    x = torch.randn(rows, columns)
    return torch.no_grad()(lambda: torch.softmax(x, -1))


def causal_attention(batch, length, heads, head_width):
    inputs = [torch.randn(batch, heads, length, head_width, requires_grad=True) for _ in range(3)]
    doutput = torch.randn(batch, heads, length, head_width)

    def iteration():
        for tensor in inputs:
            tensor.grad = None
        functional.scaled_dot_product_attention(*inputs, is_causal=True).backward(doutput)

    return iteration


KINDS = {
    "step/pre-ln": step(True),
    "step/post-ln": step(False),
    "norm-forward": norm_forward,
    "norm-backward": norm_backward,
    "softmax": softmax,
    "attention": causal_attention,
}
made = {}


def make(kind, sizes):
    return KINDS[kind](*map(int, sizes.split("x")))


def sample(name, wanted):
    before = time.process_time()
    kind, sizes, threads = name.rsplit("/", 2)
    torch.set_num_threads(int(threads))
    if name not in made:
        made[name] = make(kind, sizes)
        made[name]()
    work, times, total = made[name], [], 0.0
    while total < wanted or (len(times) < 3 and total < 4 * wanted):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
        total += times[-1]
    return {
        "name": name,
        "seconds": statistics.median(times),
        "iterations": len(times),
        "cpu_seconds": time.process_time() - before,
        "times": times,
    }


def kilobytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))


def memory(name):
    kind, sizes, threads = name.rsplit("/", 2)
    torch.set_num_threads(int(threads))
    make(kind, "1x8x1x8" if kind == "attention" else "1x8x8x1x8")()
    work = make(kind, sizes)
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    before = kilobytes("VmRSS")
    for _ in range(1 if kind == "attention" else 3):
        work()
    return {"name": name, "before": before, "growth": kilobytes("VmHWM") - before}


def describe():
    mkl = re.search(r"Math Kernel Library Version [\d.]+", torch.__config__.show())
    return {
        "version": torch.__version__,
        "blas": mkl[0] if mkl else "not MKL",
        "kernels": torch.backends.cpu.get_cpu_capability(),
    }


def main():
    mode, operand = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    if mode == "--worker":
        print("{}", flush=True)  # ready
        for line in sys.stdin:
            print(json.dumps(sample(line.strip(), float(operand))), flush=True)
    else:
        print(json.dumps(memory(operand) if mode == "--memory" else describe()))


if __name__ == "__main__":
    main()

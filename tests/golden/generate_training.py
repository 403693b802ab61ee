#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes training.json: what PyTorch's optimizers, gradient clipping and learning-rate schedules do step by step, which
the tests in tests/train compare.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 && venv/bin/python tests/golden/generate_training.py

Parameters and gradients are multiples of 1/256, so float and double have the same. The learning rate is another one in
every step. {"shapes": {name: [...]}, "start": {name: [...]}, "gradients": [{name: [...]} for each step],
"learning_rates": [...], "optimizers": [{"optimizer": ..., "options": {...}, "values": [{name: [...]} after each step],
"state": {name: [...]} after the last}], "clipping": [...], "schedules": [...]}.
"""

import json
import math
import pathlib

import torch
from torch import nn
from torch.optim import lr_scheduler

HERE = pathlib.Path(__file__).parent
SHAPES = {"weight": (2, 3), "bias": (5,)}
STEPS = 12  # RAdam's threshold lies between steps 5 and 6
LEARNING_RATES = [round(0.02 + 0.01 * math.sin(step), 4) for step in range(STEPS)]

torch.set_default_dtype(torch.float64)
torch.manual_seed(20)

draw = lambda: {name: torch.round(256 * torch.randn(shape)) / 256 for name, shape in SHAPES.items()}
START = draw()
GRADIENTS = [draw() for _ in range(STEPS)]

plain = lambda tensors: {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}

# PyTorch's names for an optimizer's state, and the library's.
STATE = {"momentum_buffer": "momentum", "exp_avg": "first_moment", "exp_avg_sq": "second_moment"}


def run_optimizer(name, optimizer_class, options, **arguments):
    parameters = {key: nn.Parameter(value.clone()) for key, value in START.items()}
    optimizer = optimizer_class(parameters.values(), lr=1.0, foreach=False, **arguments)
    values = []
    for rate, gradients in zip(LEARNING_RATES, GRADIENTS):
        optimizer.param_groups[0]["lr"] = rate
        for key, parameter in parameters.items():
            parameter.grad = gradients[key].clone()
        optimizer.step()
        values.append(plain(parameters))
    state = {
        f"{ours}.{key}": optimizer.state[parameter][theirs]
        for key, parameter in parameters.items()
        for theirs, ours in STATE.items()
        if theirs in optimizer.state[parameter]
    }
    return {"optimizer": name, "options": options, "values": values, "state": plain(state)}


def sgd(**options):
    return run_optimizer("SGD", torch.optim.SGD, options, **options)


def adam(name, optimizer_class, **options):
    arguments = dict(options)
    betas = (arguments.pop("beta1", 0.9), arguments.pop("beta2", 0.999))
    epsilon = arguments.pop("epsilon", 1e-8)
    return run_optimizer(name, optimizer_class, options, betas=betas, eps=epsilon, **arguments)


OPTIMIZERS = [
    sgd(),
    sgd(weight_decay=0.1),
    sgd(momentum=0.9),
    sgd(momentum=0.8, dampening=0.3, weight_decay=0.05),
    sgd(momentum=0.9, nesterov=True, weight_decay=0.05),
    adam("Adam", torch.optim.Adam),
    adam("Adam", torch.optim.Adam, beta1=0.3, beta2=0.98, epsilon=1e-3, weight_decay=0.1),
    adam("AdamW", torch.optim.AdamW),
    adam("AdamW", torch.optim.AdamW, beta1=0.95, beta2=0.9, epsilon=1e-2, weight_decay=0.5),
    adam("RAdam", torch.optim.RAdam),
    adam("RAdam", torch.optim.RAdam, beta1=0.8, beta2=0.9, epsilon=1e-2, weight_decay=0.1),
    adam("RAdam", torch.optim.RAdam, beta2=0.5, weight_decay=0.2, decoupled_weight_decay=True),
]


def clip(max_norm):
    parameters = {name: nn.Parameter(value.clone()) for name, value in START.items()}
    for name, parameter in parameters.items():
        parameter.grad = GRADIENTS[0][name].clone()
    norm = nn.utils.clip_grad_norm_(parameters.values(), max_norm)
    return {
        "max_norm": max_norm,
        "norm": norm.item(),
        "gradients": plain({name: parameter.grad for name, parameter in parameters.items()}),
    }


def rates(peak, steps, schedule):
    """The learning rates of the steps 1 to `steps`."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler = schedule(optimizer)
    result = []
    for _ in range(steps):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return result


def warmed_up(warm_up, schedule):
    def both(optimizer):
        rise = lr_scheduler.LambdaLR(optimizer, lambda epoch: (epoch + 1) / warm_up)
        return lr_scheduler.SequentialLR(optimizer, [rise, schedule(optimizer)], milestones=[warm_up])

    return both


def inverse_square_root(warm_up):
    return lambda optimizer: lr_scheduler.LambdaLR(
        optimizer, lambda epoch: min((epoch + 1) / warm_up, math.sqrt(warm_up / (epoch + 1)))
    )


def linear(peak, floor, steps):
    return lambda optimizer: lr_scheduler.LinearLR(optimizer, 1.0, floor / peak, total_iters=steps)


step_decay = lambda gamma, every: lambda optimizer: lr_scheduler.StepLR(optimizer, every, gamma)
cosine = lambda floor, steps: lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, steps, floor)
constant = lambda optimizer: lr_scheduler.ConstantLR(optimizer, 1.0)

SCHEDULES = {  # PyTorch's cosine rises again after its last step
    "constant": rates(0.01, 5, constant),
    "constant, warmed up": rates(0.01, 8, warmed_up(4, constant)),
    "inverse square root": rates(0.01, 20, inverse_square_root(5)),
    "inverse square root, no warm-up": rates(0.01, 5, inverse_square_root(1)),
    "step": rates(0.01, 12, step_decay(0.3, 4)),
    "step, warmed up": rates(0.01, 12, warmed_up(3, step_decay(0.3, 4))),
    "linear": rates(0.01, 12, linear(0.01, 0.002, 9)),
    "linear, warmed up": rates(0.01, 16, warmed_up(3, linear(0.01, 0.002, 9))),
    "cosine": rates(0.01, 10, cosine(0.002, 9)),
    "cosine, warmed up": rates(0.01, 13, warmed_up(3, cosine(0.0, 9))),
}


def main():
    sections = {
        "shapes": SHAPES,
        "start": plain(START),
        "gradients": [plain(gradients) for gradients in GRADIENTS],
        "learning_rates": LEARNING_RATES,
        "optimizers": OPTIMIZERS,
        "clipping": [clip(max_norm) for max_norm in (0.5, 100.0)],
        "schedules": SCHEDULES,
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in sections.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (HERE / "training.json").write_text(text)
    print(f"training.json: {len(text)} bytes")


if __name__ == "__main__":
    main()

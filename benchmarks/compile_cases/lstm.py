"""The LSTM of ADBench as GradBench defines it (diagonal weights): 2 layers, 14 bits, 1024 characters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Case, Compiled, Thunk, for_jax, for_nbgrad, for_torch, jitted
from .programs import program_ways

LAYERS, BITS, CHARACTERS = 2, 14, 1024


def data() -> dict:
    """Parameters, state and a random text's bits."""
    rng = np.random.default_rng(31337)
    return {
        "main_params": rng.random((2 * LAYERS, 4 * BITS)),
        "extra_params": rng.random((3, BITS)),
        "state": rng.random((2 * LAYERS, BITS)),
        "sequence": rng.integers(0, 2, (CHARACTERS, BITS)).astype(float),
    }


def predict(lib: Any, sigmoid: Any, main: Any, extra: Any, state: list, x: Any) -> tuple[list, Any]:
    """The next state, and the prediction (ADBench's ``predict``; ``cat`` joins)."""
    x = x * extra[0]
    following = []
    for i in range(0, 2 * LAYERS, 2):
        hidden, cell = state[i], state[i + 1]
        w, b = main[i].reshape(4, BITS), main[i + 1].reshape(4, BITS)
        forget = sigmoid(x * w[0] + b[0])
        enter = sigmoid(hidden * w[1] + b[1])
        leave = sigmoid(x * w[2] + b[2])
        change = lib.tanh(hidden * w[3] + b[3])
        cell = cell * forget + enter * change
        x = leave * lib.tanh(cell)
        following += [x, cell]
    return following, x * extra[1] + extra[2]


def score(lib: Any, predicted: Any, wanted: Any) -> Any:
    """The sum over bits of ``wanted * (predicted - log(sum(exp(predicted)) + 2))``."""
    return (wanted * (predicted - lib.log(lib.exp(predicted).sum() + 2))).sum()


def scanned(lib: Any, sigmoid: Any, scan: Any, main: Any, extra: Any, state: Any, text: Any) -> Any:
    """The objective with the library's scan over the characters."""

    def step(carry: list, xs: tuple) -> tuple:
        following, y = predict(lib, sigmoid, main, extra, carry, xs[0])
        return following, score(lib, y, xs[1])

    start = [state[i] for i in range(2 * LAYERS)]
    _, scores = scan(step, start, (text[:-1], text[1:]))
    return -scores.sum() / ((CHARACTERS - 1) * BITS)


def outside(lib: Any, sigmoid: Any, scan: Any, main: Any, extra: Any, state: Any, text: Any) -> Any:
    """The same with all scores computed at once behind the scan."""

    def step(carry: list, x: Any) -> tuple:
        return predict(lib, sigmoid, main, extra, carry, x)

    start = [state[i] for i in range(2 * LAYERS)]
    _, y = scan(step, start, text[:-1])
    y = y - lib.log(lib.exp(y).sum(1) + 2)[:, None]
    return -(text[1:] * y).sum() / ((CHARACTERS - 1) * BITS)


FORMS = {"scan": scanned, "scan, scores behind": outside}


def nbgrad_ways(data: dict) -> dict[str, Thunk]:
    import nbgrad as ng

    args = [*for_nbgrad(data).values()]

    def way(form: Any) -> Thunk:
        f = lambda *a: form(ng, ng.sigmoid, ng.scan, *a)
        return Compiled(ng.func.grad(f, (0, 1)), *args)

    return {name: way(form) for name, form in FORMS.items()}


def jax_ways(data: dict) -> dict[str, Thunk]:
    import jax
    import jax.numpy as jnp

    args = [*for_jax(data).values()]

    def way(form: Any, unroll: int) -> Thunk:
        scan = lambda *a: jax.lax.scan(*a, unroll=unroll)
        f = lambda *a: form(jnp, jax.nn.sigmoid, scan, *a)
        return jitted(jax.grad(f, (0, 1)), *args)

    made = {f"{name}, unroll {u}": way(form, u) for name, form in FORMS.items() for u in (1, 8)}
    return made


def torch_ways(data: dict) -> dict[str, Thunk]:
    import torch

    main, extra = (for_torch(data[k], requires_grad=True) for k in ("main_params", "extra_params"))
    start, text = for_torch(data["state"]), for_torch(data["sequence"])

    def gradient() -> Any:
        total, state = 0.0, [*start]
        for t in range(CHARACTERS - 1):
            state, y = predict(torch, torch.sigmoid, main, extra, state, text[t])
            total = total + score(torch, y, text[t + 1])
        value = -total / ((CHARACTERS - 1) * BITS)
        return torch.autograd.grad(value, (main, extra))

    return {"eager": gradient}


def outputs(found: list) -> list:
    """The gradients of main and extra parameters, of the flat result of the C++ programs."""
    cut = 2 * LAYERS * 4 * BITS
    return [np.asarray(found[:cut]), np.asarray(found[cut:])]


CASES = [
    Case(
        "lstm",
        "LSTM gradient, 2 layers, 14 bits, 1024 characters",
        data,
        {
            "nbgrad": nbgrad_ways,
            "jax": jax_ways,
            "torch": torch_ways,
            **program_ways("lstm", "jacobian", lambda d: d, outputs),
        },
        goals={"jax": 1, "torch": 50},
        aims={"manual": 1},
    )
]

"""Gradients of the LSTM and of the Gaussian mixture, written by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit


@njit
def lstm_forward(main: Any, extra: Any, start: Any, text: Any, kept: Any, seen: Any) -> float:
    """The loss; keeps what the adjoint reads: gates, cells, hidden states and inputs; outputs and their softmax."""
    layers, bits, chars = main.shape[0] // 2, extra.shape[1], text.shape[0]
    state, x, total = start.copy(), np.empty(bits), 0.0
    for t in range(chars - 1):
        for i in range(bits):
            x[i] = text[t, i] * extra[0, i]
        for k in range(layers):
            w, b, keep = main[2 * k], main[2 * k + 1], kept[t, k]
            for i in range(bits):
                hidden, cell = state[2 * k, i], state[2 * k + 1, i]
                forget = 1.0 / (1.0 + math.exp(-(x[i] * w[i] + b[i])))
                enter = 1.0 / (1.0 + math.exp(-(hidden * w[bits + i] + b[bits + i])))
                leave = 1.0 / (1.0 + math.exp(-(x[i] * w[2 * bits + i] + b[2 * bits + i])))
                change = math.tanh(hidden * w[3 * bits + i] + b[3 * bits + i])
                keep[0, i], keep[1, i], keep[2, i], keep[3, i] = forget, enter, leave, change
                keep[4, i], keep[5, i], keep[6, i] = hidden, cell, x[i]
                cell = cell * forget + enter * change
                bent = math.tanh(cell)
                keep[7, i] = bent
                state[2 * k + 1, i] = cell
                x[i] = leave * bent
                state[2 * k, i] = x[i]
        total_exp = 2.0
        for i in range(bits):
            y = x[i] * extra[1, i] + extra[2, i]
            seen[t, 0, i] = x[i]
            x[i] = y
            seen[t, 1, i] = math.exp(y)
            total_exp += seen[t, 1, i]
        log_sum = math.log(total_exp)
        for i in range(bits):
            seen[t, 1, i] /= total_exp
            total += text[t + 1, i] * (x[i] - log_sum)
    return -total / ((chars - 1) * bits)


@njit
def lstm(main: Any, extra: Any, start: Any, text: Any) -> tuple:
    """Loss, and its gradient for main and extra parameters."""
    layers, bits, chars = main.shape[0] // 2, extra.shape[1], text.shape[0]
    kept, seen = np.empty((chars - 1, layers, 8, bits)), np.empty((chars - 1, 2, bits))
    loss = lstm_forward(main, extra, start, text, kept, seen)
    g_main, g_extra = np.zeros(main.shape), np.zeros(extra.shape)
    b_state, bx = np.zeros(start.shape), np.empty(bits)
    scale = -1.0 / ((chars - 1) * bits)
    for t in range(chars - 2, -1, -1):
        wanted = 0.0
        for i in range(bits):
            wanted += text[t + 1, i]
        for i in range(bits):
            by = scale * (text[t + 1, i] - wanted * seen[t, 1, i])
            g_extra[1, i] += by * seen[t, 0, i]
            g_extra[2, i] += by
            bx[i] = by * extra[1, i]
        for k in range(layers - 1, -1, -1):
            w, keep, g_w, g_b = main[2 * k], kept[t, k], g_main[2 * k], g_main[2 * k + 1]
            for i in range(bits):
                forget, enter, leave, change = keep[0, i], keep[1, i], keep[2, i], keep[3, i]
                hidden, cell, x, bent = keep[4, i], keep[5, i], keep[6, i], keep[7, i]
                bh = b_state[2 * k, i] + bx[i]
                bc = b_state[2 * k + 1, i] + bh * leave * (1.0 - bent * bent)
                f = bc * cell * forget * (1.0 - forget)
                e = bc * change * enter * (1.0 - enter)
                o = bh * bent * leave * (1.0 - leave)
                c = bc * enter * (1.0 - change * change)
                b_state[2 * k + 1, i] = bc * forget
                b_state[2 * k, i] = e * w[bits + i] + c * w[3 * bits + i]
                bx[i] = f * w[i] + o * w[2 * bits + i]
                g_w[i] += f * x
                g_w[bits + i] += e * hidden
                g_w[2 * bits + i] += o * x
                g_w[3 * bits + i] += c * hidden
                g_b[i] += f
                g_b[bits + i] += e
                g_b[2 * bits + i] += o
                g_b[3 * bits + i] += c
        for i in range(bits):
            g_extra[0, i] += bx[i] * text[t, i]
    return loss, g_main, g_extra


@njit
def softmax(x: Any, out: Any) -> float:
    """The weights exp(x) / sum(exp(x)); returns the logarithm of the sum."""
    top, total = x[0], 0.0
    for i in range(1, x.shape[0]):
        top = max(top, x[i])
    for i in range(x.shape[0]):
        out[i] = math.exp(x[i] - top)
        total += out[i]
    for i in range(x.shape[0]):
        out[i] /= total
    return math.log(total) + top


@njit
def gmm_prior(
    icf: Any, gamma: float, m: int, sign: float, diagonal: Any, sums: Any, g_icf: Any
) -> float:
    """The prior's part that depends on ``icf``, and its gradient; diagonals and the sums of their logarithms."""
    k, d = diagonal.shape
    prior, g2 = 0.0, gamma * gamma
    for c in range(k):
        for i in range(d):
            sums[c] += icf[c, i]
            diagonal[c, i] = math.exp(icf[c, i])
            prior += 0.5 * g2 * diagonal[c, i] ** 2
            g_icf[c, i] = sign * (g2 * diagonal[c, i] ** 2 - m)
        for i in range(d, icf.shape[1]):
            prior += 0.5 * g2 * icf[c, i] ** 2
            g_icf[c, i] = sign * g2 * icf[c, i]
        prior -= m * sums[c]
    return prior


@njit
def gmm(
    alpha: Any, means: Any, icf: Any, x: Any, gamma: float, m: int, constant: float, sign: float
) -> tuple:
    """Value, and its gradient for alpha, means and icf."""
    n, d = x.shape
    k = alpha.shape[0]
    g_alpha, g_means, g_icf = np.empty(k), np.zeros((k, d)), np.empty((k, icf.shape[1]))
    diagonal, sums, parts, part_sums = np.empty((k, d)), np.zeros(k), np.empty(k), np.zeros(k)
    prior = constant + gmm_prior(icf, gamma, m, sign, diagonal, sums, g_icf)
    top = softmax(alpha, parts)
    for c in range(k):
        g_alpha[c] = -n * parts[c]
    centered, scaled, terms = np.empty((k, d)), np.empty((k, d)), np.empty(k)
    total = 0.0
    for s in range(n):
        for c in range(k):
            near, far, low = centered[c], scaled[c], icf[c]
            for i in range(d):
                near[i] = x[s, i] - means[c, i]
                far[i] = diagonal[c, i] * near[i]
            at, square = d, 0.0
            for i in range(d):
                for j in range(d - 1 - i):
                    far[i + 1 + j] += low[at + j] * near[i]
                at += d - 1 - i
            for i in range(d):
                square += far[i] * far[i]
            terms[c] = alpha[c] + sums[c] - 0.5 * square
        total += softmax(terms, parts)
        for c in range(k):
            near, far, low, g_low, part = centered[c], scaled[c], icf[c], g_icf[c], parts[c]
            part_sums[c] += part
            at = d
            for i in range(d):
                b = far[i] * diagonal[c, i]
                g_low[i] -= part * b * near[i]
                step = part * near[i]
                for j in range(d - 1 - i):
                    b += low[at + j] * far[i + 1 + j]
                    g_low[at + j] -= step * far[i + 1 + j]
                at += d - 1 - i
                g_means[c, i] += part * b
    for c in range(k):
        g_alpha[c] += part_sums[c]
        for i in range(d):
            g_icf[c, i] += part_sums[c]
    value = total - 0.5 * n * d * math.log(2.0 * math.pi) - n * top + sign * prior
    return value, g_alpha, g_means, g_icf

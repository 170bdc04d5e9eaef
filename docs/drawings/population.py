"""The published and the population score of a correlated Gaussian through ReLU, by sample size."""

import matplotlib.pyplot as plt
import numpy as np

import sigmascope as sg

CHANNELS, SIZES = 64, (192, 256, 384, 512, 768, 1024, 1536, 2048)
BLUE, ORANGE = "#0072B2", "#D55E00"

rng = np.random.default_rng(0)
basis = np.linalg.qr(rng.standard_normal((CHANNELS, CHANNELS)))[0]
mixing = basis * (1 / np.sqrt(np.arange(1, CHANNELS + 1)))


def draw(n):
    x = rng.standard_normal((n, CHANNELS)) @ mixing.T
    return x, np.maximum(x, 0)


def population(pairs):
    moments = sg.Moments()
    for x, y in pairs:
        moments.update(x, y)
    return moments.score()


truth = population(draw(10_000) for _ in range(20)).score
samples = {n: draw(n) for n in SIZES}
published = [sg.affinity(*samples[n]).score for n in SIZES]
debiased = [population([samples[n]]) for n in SIZES]
scores = np.array([one.score for one in debiased])
errors = np.array([[one.score - one.low, one.high - one.score] for one in debiased]).T

panel = plt.subplots(figsize=(6.6, 3.2), layout="constrained")[1]
panel.axhline(truth, color="black", linewidth=0.8, label=f"200,000 samples: {truth:.3f}")
panel.plot(SIZES, published, "o-", color=ORANGE, label="published, one batch")
panel.errorbar(
    SIZES, scores, errors, fmt="s", color=BLUE, capsize=3, label="population, 95 % interval"
)
panel.set_xscale("log", base=2)
panel.set_xticks(SIZES, [str(n) for n in SIZES])
panel.minorticks_off()
panel.set(xlabel="samples", ylabel="score")
panel.legend(frameon=False, fontsize=8)

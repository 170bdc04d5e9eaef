"""What the prose of each example says, as a check of the names that the example leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Found = dict[str, Any]


def training(found: Found) -> None:
    rows = found["drawn"].table
    assert len({row["step"] for row in rows}) >= 8
    assert len({row["site"] for row in rows}) >= 4
    scores = [row["score"] for row in rows]
    assert all(score == score for score in scores)
    assert max(scores) - min(scores) > 0.05  # there is something to see


def affinity_penalty(found: Found) -> None:
    training(found)
    change = found["pushed"].scores[-1] - found["free"].scores[-1]
    assert change[3:].min() > 0.05


def convnet_training(found: Found) -> None:
    training(found)
    rows = [row for row in found["drawn"].table if row["site"] == "17"]
    assert rows[0]["score"] > 0.95 > 0.85 > max(row["score"] for row in rows[1:])


def transformer_training(found: Found) -> None:
    training(found)
    change = found["callback"].track.scores[-1] - found["callback"].track.scores[0]
    assert max(change) < -0.02
    assert change.argmin() == 1


def align_two_networks(found: Found) -> None:
    curves = found["line"].curves
    middle = {name: curve.losses[2] for name, curve in curves.items()}
    assert middle["naive"] > 1.5 > 0.8 > middle["aligned"]


def linearize_a_network(found: Found) -> None:
    result = found["result"]
    accuracies = [point.held_out.accuracy for point in result.curve(tuned=False)]
    assert accuracies[0] - accuracies[3] < 5 < 15 < accuracies[0] - accuracies[6]
    assert result.curve(tuned=True)[0].held_out.accuracy > accuracies[6] + 10


def torchmetrics_affinity(found: Found) -> None:
    assert {name: len(values) for name, values in found["scores"].items()} == {
        "ReLU": 17, "GELU": 17, "SiLU": 17, "tanh": 17
    }  # fmt: skip
    relu = found["scores"]["ReLU"]
    assert relu[-1] > 0.9 > 0.7 > relu[8]


def first_signature(found: Found) -> None:
    signature = found["signature"]
    inside, ends = (
        np.mean([site.score for site in signature if site.name.endswith(name)])
        for name in ("act1", "act2")
    )
    assert ends > inside + 0.1
    assert found["site"].score > found["site"].high  # the published score is too high
    below = [site for site in signature if site.population < site.score - 0.5]
    assert len(below) == 1
    assert below[0].moved > 0.5 * below[0].tested
    assert below[0].dim == min(site.dim for site in signature)


def residual_split(found: Found) -> None:
    shares = []
    for signature in found["signatures"]:
        inside, ends = (
            np.array([site.score for site in signature if site.name.endswith(name)])
            for name in (".act1", ".act2")
        )
        shares.append((ends[:, None] > inside).mean())
    assert shares[0] > 0.9
    assert 0.3 < shares[1] < 0.7


def where_inputs_lie(found: Found) -> None:
    grids, means, widths = found["grids"], found["means"], found["widths"]
    relu, gelu, tanh = grids["ReLU"], grids["GELU"], grids["tanh"]
    assert np.isnan(relu[0, 0])
    assert relu[0, -1] > 0.999
    # only the ratio of mean and width counts for ReLU: twice both is the same
    near, far = np.abs(means - 1).argmin(), np.abs(means - 2).argmin()
    steps = round(np.log(2) / np.log(widths[1] / widths[0]))
    assert np.allclose(relu[12, near], relu[12 + steps, far], atol=0.02)
    # a narrow range looks like its tangent, a wide one non-linear
    assert tanh[0, 12] > 0.99 > 0.7 > tanh[-1, 12]
    assert np.nanmin(gelu[:, means < -0.76]) == np.nanmin(gelu) < 0
    assert (gelu[0, means < -0.85] < 0).all()


def how_many_samples(found: Found) -> None:
    for name in found["sites"]:
        widths = [one[name].high - one[name].low for one in found["signatures"].values()]
        assert widths[-1] < 0.5 * min(widths[:2])
    assert np.isnan(found["site"].population)
    assert "too few" in found["site"].population_reason


def batch_size(found: Found) -> None:
    for name in found["sites"]:
        sites = [one[name] for one in found["signatures"].values()]
        published = [site.score for site in sites]
        assert published == sorted(published, reverse=True)
        assert np.ptp([site.population for site in sites]) < 1e-9


def channels_of_a_layer(found: Found) -> None:
    scores = found["scores"]
    assert len(scores) == 32
    assert scores.max() - scores.min() > 0.2
    assert np.corrcoef(scores, found["positive"])[0, 1] > 0.8


def your_own_activation(found: Found) -> None:
    sites = found["signature"].sites
    assert [site.kind for site in sites] == ["dead_zone", "dead_zone", "Snake", "Snake"]
    assert len({round(site.population, 2) for site in sites}) == 4


def formulas(found: Found) -> None:
    kinds = ["quick_gelu", "gelu", "leaky_relu", "mish"]
    assert [site.kind for site in found["found"]] == kinds
    assert [site.kind for site in found["parts"]] == ["sigmoid", "tanh"]


def before_and_after_training(found: Found) -> None:
    track = found["track"]
    assert track.steps == [0, 1, 3, 10, 30, 80]
    inside, ends = track.scores[:, 1::2].mean(axis=1), track.scores[:, 2::2].mean(axis=1)
    assert track.scores[0, 1:].min() > 0.75 > 0.6 > track.scores[0, 0]
    assert inside[0] - inside[1] > 2 * (ends[0] - ends[1])
    assert ends[0] - inside[0] < 0.1 < 0.2 < ends[-1] - inside[-1]


def compare_two_networks(found: Found) -> None:
    for end, least, most in ((".act1", 0.03, 0.15), (".act2", -0.16, -0.05)):
        labels = [site.difference for site in found["labels"].sites[13:] if site.name.endswith(end)]
        assert len(labels) == 3
        assert least < min(labels) <= max(labels) < most
    later = [abs(site.difference) for site in found["seed"].sites]
    assert max(later[13:]) < 0.04 < 0.1 < max(later[:13])


def families_of_networks(found: Found) -> None:
    distances, family = found["distances"], found["family"]
    assert len(family) == len(distances.names) == 12
    for row, name in zip(distances.matrix, distances.names, strict=True):
        near = [distances.names[place] for place in np.argsort(row)[1:2]]
        assert family[near[0]] == family[name]  # the nearest other network is of the same family


def remove_one_activation(found: Found) -> None:
    drops = found["drops"]
    high = [drops[site.name] for site in found["plan"].sites if site.score > 0.7]
    low = [drops[site.name] for site in found["plan"].sites if site.score <= 0.7]
    assert len(high) >= 6
    assert max(high) <= 1.5
    assert min(low) < 1 < 40 < max(low)


def blocks_of_a_transformer(found: Found) -> None:
    rows = list(found["blocks"])
    assert len(rows) == 6
    assert all(row.stream.value > row.increment.value for row in rows)
    assert rows[-1].activation.value > max(row.activation.value for row in rows[1:5])
    assert rows[-1].increment.value > max(row.increment.value for row in rows[1:5])


def gated_units(found: Found) -> None:
    before, after = found["before"], found["after"]
    assert [site.role for site in after["alone"]] == ["gate"] * 3
    assert (before["alone"].scores > before["unit"].scores + 0.2).all()
    assert (after["alone"].scores < before["alone"].scores).all()
    assert after["unit"].scores[-1] > before["unit"].scores[-1] + 0.1


def same_function_other_weights(found: Found) -> None:
    before, permuted, moved = found["scores"]
    assert abs(permuted - before).max() < 1e-6
    assert abs(moved - before).max() > 0.01


def similarity_of_layers(found: Found) -> None:
    means = {key: curve.mean() for key, curve in found["curves"].items()}
    for title in found["groups"]:
        assert means[title, "itself, moved"] > 0.999
        assert means[title, "another seed"] > means[title, "before training"] + 0.2
    assert means["CKA", "another seed"] > 0.8
    assert means["CKA for the ReLU group", "another seed"] < 0.65


def stitch_two_networks(found: Found) -> None:
    accuracies = [[one.stitched_accuracy for one in row] for row in found["stitches"].values()]
    (_, first, second), (_, third, fourth), (_, fifth, sixth) = accuracies
    assert max(row[0] for row in accuracies) < 25
    assert first < second - 8
    assert third < fourth - 15
    assert abs(fifth - sixth) < 4
    assert min(fifth, sixth) > 88


def concepts_of_channels(found: Found) -> None:
    dissection = found["found"]
    assert len({dissection.unit(unit)[0] for unit in found["units"]}) == 4
    turned = found["turned"]
    mean = turned.best_iou.mean(dim=(0, 2))
    assert mean[0] > mean[1] > mean[2]
    unique = turned.unique_concepts.mean(axis=0)
    assert unique[0] > unique[1] > unique[2]


def survey_of_networks(found: Found) -> None:
    assert found["outcome"].name == "sigmascope/resnet21"
    assert list(found["runs"].failures) == ["sigmascope/resnet21"]
    assert len(found["groups"]) == 7


def other_measures(found: Found) -> None:
    table = found["correlations"]
    sparsity = dict(zip(table.names, table.values[:, table.metrics.index("sparsity")], strict=True))
    residual, others = ({sparsity[name] for name in row} for row in found["families"].values())
    assert max(residual) < -0.7 < -0.68 < min(others)
    assert max(others) < 0


def share_a_report(found: Found) -> None:
    assert len(found["drawn"].table) == sum(map(len, found["signatures"])) == 19 + 19 + 9


CLAIMS: dict[str, Callable[[Found], None]] = {
    "monitor_accelerate": convnet_training,
    "monitor_huggingface": transformer_training,
    "monitor_lightning": convnet_training,
    "monitor_plain_loop": convnet_training,
    **{
        claim.__name__: claim
        for claim in (
            affinity_penalty, align_two_networks, batch_size, before_and_after_training,
            blocks_of_a_transformer, channels_of_a_layer, compare_two_networks,
            concepts_of_channels, other_measures, share_a_report, stitch_two_networks,
            survey_of_networks,
            families_of_networks, first_signature, formulas, gated_units, how_many_samples,
            linearize_a_network, remove_one_activation, residual_split,
            same_function_other_weights, similarity_of_layers, torchmetrics_affinity,
            where_inputs_lie, your_own_activation,
        )
    },
}  # fmt: skip

"""Networks of torchvision and timm: their own weights and their own preprocessing."""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch

import sigmascope as sg
from sigmascope.catalog import data, model, vision as module
from sigmascope.catalog.optional import optional
from tests.catalog.stubs import Code, stub

IMAGES = torch.randint(
    0, 256, (2, 3, 301, 260), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("resnet18", "bilinear"), ("efficientnet_b0", "bicubic"), ("swin_t", "bicubic")],
)
def test_torchvision_prepares_images_itself(name: str, mode: str) -> None:
    preset = optional("torchvision.models").get_model_weights(name).DEFAULT.transforms()
    found = model(f"torchvision/{name}", weights=None)
    assert preset.interpolation.value == mode
    assert found.transform is not None
    assert found.transform.takes == "images"
    assert torch.equal(found.transform(IMAGES), preset(IMAGES))
    assert found.transform(IMAGES[:1]).shape == found.inputs.shape


@pytest.mark.parametrize(
    ("name", "mode", "crop"),
    [
        ("tf_mobilenetv3_small_075", "bilinear", "center"),
        ("vit_tiny_patch16_224", "bicubic", "center"),
        ("vit_small_patch16_lingbot", "bilinear", "squash"),
        ("deepseek_vit_412m", "bicubic", "border"),
    ],
)
def test_timm_prepares_images_itself(
    name: str, mode: str, crop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timm, picture = optional("timm"), optional("PIL.Image").fromarray
    create = timm.create_model
    small = {"depth": 1} if "vit" in name else {}
    monkeypatch.setattr(
        timm, "create_model", lambda name, pretrained: create(name, pretrained=False, **small)
    )
    found = model(f"timm/{name}", weights=None)
    settings = timm.data.resolve_model_data_config(found.network)
    assert (settings["interpolation"], settings["crop_mode"]) == (mode, crop)
    preset = timm.data.create_transform(**settings)
    expected = torch.stack(
        [preset(picture(np.ascontiguousarray(one.permute(1, 2, 0).numpy()))) for one in IMAGES]
    )
    assert found.transform is not None
    assert torch.equal(found.transform(IMAGES), expected)
    assert found.inputs.shape == expected[:1].shape
    assert found.accuracy is None


@pytest.mark.parametrize("name", ["torchvision/inception_v3", "timm/resnet10t"])
def test_random_images_have_the_size_that_the_network_takes(name: str) -> None:
    found = model(name, weights=None)
    ((images, _),) = data("random", limit=1, transform=found.transform)
    assert images.shape == found.inputs.shape


TASKS = {
    "r3d_18": ("images", (3, 16, 112, 112)),
    "fcn_resnet50": ("images", (3, 520, 520)),
    "ssdlite320_mobilenet_v3_large": ("images", (3, 320, 320)),
}


@pytest.mark.parametrize("name", TASKS)
def test_networks_for_other_tasks_have_inputs_of_their_own(name: str) -> None:
    found = model(f"torchvision/{name}", weights=None)
    takes, size = TASKS[name]
    assert found.transform is not None
    assert (found.transform.takes, found.transform.size) == (takes, size)
    if name != "fcn_resnet50":  # which keeps the shape of the images
        assert found.transform(IMAGES).shape[1:-2] == size[:-2]
    example = found.inputs[0]
    assert tuple(example.shape) == size
    ((random, _),) = data("random", limit=1, transform=found.transform)
    assert tuple(random.shape) == (1, *size)
    ((random, _),) = data("random:48", limit=1, transform=found.transform)
    assert tuple(random.shape) == (1, *size[:-2], 48, 48)


def test_a_network_of_two_images_runs_on_its_example() -> None:
    found = model("torchvision/raft_small", weights=None)
    assert [tuple(image.shape) for image in found.inputs.values()] == [(1, 3, 128, 128)] * 2
    assert found.transform is None
    with torch.no_grad():
        flow = found.network(**found.inputs, num_flow_updates=1)
    assert flow[0].shape == (1, 2, 128, 128)


def test_all_tasks_are_listed() -> None:
    names = sg.catalog.model_names()["torchvision"]
    assert {f"torchvision/{name}" for name in ("resnet18", "raft_small", *TASKS)} <= {*names}
    assert not [name for name in names if "quantized" in name]


def test_feature_maps_of_timm() -> None:
    found = model("timm/resnet10t:features", weights=None)
    with torch.no_grad():
        maps = found.network(found.inputs[..., :64, :64])
    assert [one.shape[1] for one in maps] == [64, 64, 128, 256, 512]
    assert sum("relu" in repr(one).lower() for one in found.network.modules())
    with pytest.raises(sg.OptionError, match=r"timm/resnet11t is not in the catalog"):
        model("timm/resnet11t:features", weights=None)


def test_a_file_that_the_hub_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise URLError("no route")

    timm = optional("timm")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(timm, "create_model", fail)
    monkeypatch.setattr(
        timm,
        "get_pretrained_cfg",
        lambda name: stub("cfg", hf_hub_id=None, url="https://a.example/b/w.pth"),
    )
    with pytest.raises(
        sg.InputError,
        match=r"Put w\.pth in .*hub/checkpoints, pass weights=FILE, or pass weights=None",
    ):
        model("timm/resnet10t")


def checkpoint(folder: Path, name: str) -> Path:
    """Where torchvision looks for the weights of a network."""
    url: str = optional("torchvision.models").get_model_weights(name).DEFAULT.url
    path = folder / "hub" / "checkpoints" / url.rpartition("/")[2]
    path.parent.mkdir(parents=True)
    return path


def test_default_weights_of_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    state = model("torchvision/squeezenet1_1", weights=None, seed=3).network.state_dict()
    torch.save(state, checkpoint(tmp_path, "squeezenet1_1"))
    found = model("torchvision/squeezenet1_1")
    assert (found.weights, found.accuracy) == ("SqueezeNet1_1_Weights.IMAGENET1K_V1", 58.178)
    assert all(
        torch.equal(value, state[name]) for name, value in found.network.state_dict().items()
    )


@pytest.mark.parametrize("content", ["code", "nothing", "noise"])
def test_code_in_the_cache_of_torchvision_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = checkpoint(tmp_path, "squeezenet1_1")
    if content == "code":
        torch.save({"a": Code()}, path)
    else:
        path.write_bytes(b"noise" * 100 if content == "noise" else b"")
    with pytest.raises(
        sg.FileFormatError,
        match=r"squeezenet1_1-\w+\.pth: contains more than tensors.*could run code",
    ):
        model("torchvision/squeezenet1_1")
    assert not (tmp_path / "ran").exists()


def test_weights_of_torchvision_that_cannot_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise URLError("no route")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    place = (
        r"the weights resnet18-\w+\.pth are not in .*hub/checkpoints and cannot be downloaded "
        r"\(.*no route.*\)\. Put the"
    )
    with pytest.raises(sg.InputError, match=place):
        model("torchvision/resnet18")


@pytest.mark.parametrize(
    ("raised", "error", "match"),
    [
        (
            FileNotFoundError("no route"),
            sg.InputError,
            r"timm/resnet10t are not on this .* downloaded \(no route\)\. Download "
            r"model\.safetensors of timm/resnet10t\.",
        ),
        (
            RuntimeError("No pretrained weights exist"),
            sg.OptionError,
            r"timm has no weights for 'resnet10t' \(No pretrained",
        ),
        (
            RuntimeError("weights_only=True blocked loading"),
            sg.FileFormatError,
            r"resnet10t: contains more than tensors",
        ),
    ],
)
def test_weights_of_timm_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, error: type[Exception], match: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(optional("timm"), "create_model", fail)
    monkeypatch.setattr(module, "unreachable", lambda: None)
    with pytest.raises(error, match=match):
        model("timm/resnet10t")


@pytest.mark.parametrize(
    ("name", "match"),
    [
        (
            "torchvision/resnt50",
            r"torchvision/resnt50 is not in the catalog. Did you mean 'torchvision/resnet50'",
        ),
        ("torchvision/ResNet50", r"torchvision/ResNet50 is not in the catalog"),
        (
            "torchvision/qqq",
            r"torchvision/qqq is not in the catalog\. Run `sigmascope list models` for all names",
        ),
        ("timm/resnet", r"timm/resnet is not in the catalog"),
        (
            "timm/resnet50.a1_in2k",
            r"timm/resnet50.a1_in2k is not in the catalog. Did you mean 'timm/resnet50.a1_in1k'",
        ),
    ],
)
def test_unknown_names(name: str, match: str) -> None:
    with pytest.raises(sg.OptionError, match=match):
        model(name)

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from initscope.errors import InputError
from initscope.models.architectures import activation_names, build, parse
from initscope.testing import z_score
from initscope.theory import activations
from initscope.theory.activations import activation


def texts(architecture):
    return [token.text for token in parse(architecture)]


@pytest.mark.parametrize(
    ("architecture", "layers"),
    [
        ("conv11x11x100-relu", "conv11x11x100 relu"),
        ("dense1000-relu*3", "dense1000 relu " * 3),
        ("conv3x3x64-relu*2", "conv3x3x64 relu " * 2),
        ("(conv3x3x64-relu)*2", "conv3x3x64 relu " * 2),
        ("conv3x3x64-bn-relu*2-flatten-dense10", "conv3x3x64 bn relu conv3x3x64 bn relu flatten dense10"),
        ("conv5x5x8-relu-conv3x3x8-relu*2", "conv5x5x8 relu conv3x3x8 relu conv3x3x8 relu"),
        ("dense8*2-relu", "dense8 dense8 relu"),
        ("dense8*2*2", "error"),
        ("relu-tanh*2", "relu tanh relu tanh"),
        ("dense8-relu*2-tanh*2", "dense8 relu dense8 relu tanh tanh"),
        ("((dense8-relu)*2-dense4)*2", "dense8 relu dense8 relu dense4 " * 2),
        ("(conv3x3x8-relu-avgpool2)*2-dense4", "conv3x3x8 relu avgpool2 " * 2 + "dense4"),
        (" dense8 - relu * 2 ", "dense8 relu dense8 relu"),
    ],
)
def test_repetition(architecture, layers):
    if layers == "error":
        with pytest.raises(InputError, match="position 9"):
            parse(architecture)
    else:
        assert texts(architecture) == layers.split()


words = st.sampled_from(["conv3x3x8", "dense5", "relu", "bn", "leaky_relu:0.1", "conv2x2x3:valid", "maxpool2"])


@given(st.lists(st.tuples(st.lists(words, min_size=1, max_size=4), st.integers(1, 3)), min_size=1, max_size=4))
@settings(deadline=None)
def test_parenthesised_groups_are_written_out(groups):
    text = "-".join(f"({'-'.join(group)})*{times}" for group, times in groups)
    assert texts(text) == [word for group, times in groups for word in group * times]


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        (
            "conv3x3x8-rellu",
            r"position 11: unknown layer 'rellu' \(did you mean relu\?\). Known: convKxKxC.*activations: .*relu",
        ),
        ("conv3", "position 1: unknown layer 'conv3'"),
        ("conv3x3x8:mirror", "unknown padding 'mirror'. Known: circular, zeros, reflect, replicate, valid"),
        ("dense8--relu", "position 8: unknown layer ''"),
        ("dense8-", "position 8: unknown layer ''"),
        ("", "position 1: unknown layer ''"),
        ("(dense8-relu", r"position 1: '\(' without a matching '\)'"),
        ("dense8)*2", r"position 7: '\)' without a matching '\('"),
        ("dense8-relu*0", "position 12: '\\*n' needs"),
        ("dense8*", "position 7: '\\*n' needs"),
        ("dense8*99999999", "position 7: '\\*n' .* at most 10000 layers"),
        ("dense8 relu", "position 8: unknown 'relu'; layers are joined by '-'"),
        ("dense0", "'dense0' has a size of 0"),
        ("conv3x0x8", "has a size of 0"),
        ("relu:0.5", "relu takes no parameter; celu, elu, hardshrink, leaky_relu, softshrink do"),
        ("conv3x3x8/2x2", "unknown layer 'conv3x3x8/2x2'"),
        ("dropout1.5", "unknown layer 'dropout1.5'"),
    ],
)
def test_errors_say_where_and_what_is_known(architecture, message):
    with pytest.raises(InputError, match=message):
        parse(architecture)


def test_a_network_of_everything():
    model = build(
        "conv3x3x4/2-bn-relu-conv5x5x6:zeros-leaky_relu:0.2-maxpool2-conv2x2x3:valid-gelu-avgpool2-dropout.3-dense7-bn-tanh",
        (3, 32, 32),
    )
    names = [name for name, _ in model.named_children()]
    assert names[:5] == ["conv1", "bn1", "relu1", "conv2", "leaky_relu1"]
    assert names[-4:] == ["flatten1", "dense1", "bn2", "tanh1"]
    assert model.conv1.padding_mode == "circular"
    assert model.conv2.padding_mode == "zeros"
    assert model.conv2.padding == (2, 2)
    assert model.conv3.padding == (0, 0)
    assert model.leaky_relu1.negative_slope == 0.2
    assert model.dropout1.p == 0.3
    assert isinstance(model.bn2, nn.BatchNorm1d)
    assert model.training
    assert all(layer.training for layer in model)
    with torch.no_grad():
        output = model.eval()(torch.randn(5, 3, 32, 32))
    assert output.shape == (5, 7)
    assert torch.isfinite(output).all()
    assert torch.equal(model.bn1.running_var, torch.ones(4))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("mode", ["circular", "zeros", "replicate", "reflect"])
def test_same_padding_keeps_the_size(kernel, mode):
    model = build(f"conv{kernel}x{kernel}x2:{mode}", (1, 9, 8))
    assert model(torch.ones(1, 1, 9, 8)).shape == (1, 2, 9, 8)


def test_circular_padding_commutes_with_shifts():
    model = build("conv3x3x4-relu*3", (2, 8, 8))
    x = torch.randn(1, 2, 8, 8, dtype=torch.float64)
    model.double()
    assert torch.allclose(model(x.roll((3, 2), (2, 3))), model(x).roll((3, 2), (2, 3)), atol=1e-12)
    model = build("conv3x3x4:zeros-relu*3", (2, 8, 8)).double()
    assert not torch.allclose(model(x.roll((3, 2), (2, 3))), model(x).roll((3, 2), (2, 3)), atol=1e-3)


@pytest.mark.parametrize(
    ("text", "shape"), [("conv3x4-bn-relu-maxpool2", (2, 8)), ("conv3x3x3x4-bn-avgpool2", (2, 8, 8, 8))]
)
def test_one_and_three_dimensions(text, shape):
    assert build(text, shape)(torch.ones(2, *shape)).shape == (2, 4, *[4] * (len(shape) - 1))


@pytest.mark.parametrize("name", sorted(set(activation_names()) - {"prelu"}))
def test_every_activation_is_that_of_the_theory(name):
    x = torch.linspace(-7, 7, 4001, dtype=torch.float64)[:, None]
    assert torch.allclose(build(name, (1,))(x), activation(name)(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["celu", "elu", "leaky_relu", "softshrink"])
def test_parameters_of_activations_are_those_of_the_theory(name):
    x = torch.linspace(-7, 7, 4001, dtype=torch.float64)[:, None]
    assert torch.allclose(build(f"{name}:0.3", (1,))(x), getattr(activations, name)(0.3)(x), rtol=1e-12, atol=1e-12)


def test_every_activation_of_the_theory_has_its_name_here():
    assert set(activations.names()) <= set(activation_names())
    assert repr(build("erf", (1,)).erf1) == "ActivationLayer(erf)"


def test_weights_are_he_gaussian_without_bias():
    """100,000 weights: catches a variance off by 4·√(2/100000) = 2 %. The seed is fixed: there is no false alarm."""
    torch.manual_seed(0)
    weights = build("dense1000", (100,)).dense1.weight.detach().double().ravel().numpy()
    assert abs(z_score(weights**2, 2 / 100)) < 4
    assert abs(z_score(weights**2, 1.03 * 2 / 100)) > 4
    assert abs(z_score(weights, 0)) < 4
    conv = build("conv5x5x400", (10, 9, 9)).conv1
    assert conv.bias is None
    assert abs(z_score(conv.weight.detach().double().ravel().numpy() ** 2, 2 / 250)) < 4


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("dense8", None, "needs the shape of its input; give data, or --input-shape 3x64x64"),
        ("dense8-conv3x3x8", (4,), "position 8: conv3x3x8 is a convolution in 2 dimensions, but its input has 0"),
        ("conv3x8", (3, 8, 8), "convolution in 1 dimension, but its input has 2"),
        ("conv4x4x8/4", (3, 8, 8), "even filters with a stride cannot have centered padding; add ':valid'"),
        ("dense8-maxpool2", (4,), r"maxpool2 needs an image, but gets \(8,\); put it before dense"),
        ("conv3x3x4-maxpool16", (3, 8, 8), "position 11: maxpool16 cannot take an input of 4×8×8"),
        ("conv9x9x4:valid", (3, 8, 8), "conv9x9x4:valid cannot take an input of 3×8×8"),
        ("conv31x31x4", (3, 8, 8), "conv31x31x4 cannot take an input of 3×8×8"),
    ],
)
def test_shapes_that_do_not_fit(text, shape, message):
    with pytest.raises(InputError, match=message):
        build(text, shape)


def test_the_shape_is_found_without_running_the_network():
    """2000×2000 inputs: the layers are only asked for their shapes."""
    model = build("conv11x11x8-relu*3-dense1", (3, 2000, 2000))
    assert model.dense1.in_features == 8 * 2000 * 2000


def test_no_two_layers_share_a_name():
    assert len(build("dense2-relu6-(relu)*70", (2,))) == 72


def test_the_random_state_decides_the_weights():
    torch.manual_seed(5)
    first = build("conv3x3x4-relu*2", (1, 8, 8)).conv2.weight
    torch.manual_seed(5)
    assert torch.equal(first, build("conv3x3x4-relu*2", (1, 8, 8)).conv2.weight)


layers = st.one_of(
    st.builds(
        "conv{}x{}x3/{}:{}".format,
        st.integers(1, 7),
        st.integers(1, 7),
        st.integers(1, 3),
        st.sampled_from(["circular", "zeros", "reflect", "replicate", "valid"]),
    ),
    st.builds("{}pool{}".format, st.sampled_from(["avg", "max"]), st.integers(1, 4)),
)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@given(st.lists(layers, min_size=1, max_size=4), st.integers(1, 14), st.integers(1, 14))
@settings(max_examples=200, deadline=None)
def test_every_network_that_is_built_runs(words, height, width):
    """The shapes followed by arithmetic are those of torch: the dense layer at the end fits, or building refused."""
    try:
        model = build("-".join([*words, "dense2"]), (2, height, width))
    except InputError:
        return
    assert model(torch.ones(1, 2, height, width)).shape == (1, 2)


@given(st.lists(layers, min_size=1, max_size=1), st.integers(1, 14), st.integers(1, 14))
@settings(max_examples=200, deadline=None)
def test_nothing_is_refused_that_torch_can_run(words, height, width):
    match = parse(words[0])[0].fields
    if "conv" not in match or "2" in match["sides"] or "4" in match["sides"] or "6" in match["sides"]:
        return
    *kernel, filters = map(int, match["sides"].split("x"))
    valid = match["padding"] == "valid"
    layer = nn.Conv2d(
        2,
        filters,
        tuple(kernel),
        stride=int(match["stride"]),
        padding=0 if valid else tuple(side // 2 for side in kernel),
        padding_mode="zeros" if valid else match["padding"],
    )
    try:
        layer(torch.ones(1, 2, height, width))
    except RuntimeError:
        with pytest.raises(InputError, match="cannot take an input"):
            build(words[0], (2, height, width))
    else:
        build(words[0], (2, height, width))

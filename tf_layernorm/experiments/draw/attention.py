"""DRAW's windows: grids of Gaussian filters through which an image is read and written."""

from typing import NamedTuple

from keras import ops

from tf_layernorm._arguments import Tensor

PARAMETERS = 5  # of a window: g_x, g_y, log variance, log stride, log intensity
LIMIT = 10.0  # on the three logarithms


class Window(NamedTuple):
    """A grid of `size` x `size` Gaussian filters, one a case."""

    filters: Tensor  # (B, 2, size, pixels): those over the columns (F_X), those over the rows (F_Y)
    log_intensity: Tensor  # (B,)
    centre: Tensor  # (B, 2): x and y, in pixels from the centre of the first one
    stride: Tensor  # (B,): the distance between the centres of neighbouring filters, in pixels


def filter_bank(centre: Tensor, stride: Tensor, variance: Tensor, size: int, pixels: int) -> Tensor:
    r"""`size` Gaussian filters over a line of pixels; each sums to one.

    $F[i, a] \propto \exp(-(a - \mu_i)^2 / 2 \sigma^2)$ with means
    $\mu_i = g + (i - N/2 - 1/2) \delta$ for $i = 1 \ldots N$. The sum over the pixels is that of a
    softmax, so that a filter beside the image comes out as its nearest pixel, where the
    exponentials would all round to zero and their quotient to NaN.

    Args:
        centre: The grid's centre `g`, in pixels from the centre of the first one, any shape.
        stride: The distance between means, of the same shape.
        variance: The filters' variance, of the same shape.
        size: Number of filters N.
        pixels: Number of pixels.

    Returns:
        A tensor of shape `(*shape, size, pixels)`.

    Example:

    >>> from tf_layernorm.experiments.draw.attention import filter_bank
    >>> filter_bank(1.0, 1.0, 1e-4, size=3, pixels=3).numpy().round(3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    References:
        [Gregor et al., 2015](https://arxiv.org/abs/1502.04623), eq. (19)-(20), (25)-(26).
    """
    centre, stride, variance = map(ops.convert_to_tensor, (centre, stride, variance))
    dtype = centre.dtype
    means = centre[..., None] + (ops.arange(size, dtype=dtype) - (size - 1) / 2) * stride[..., None]
    distances = ops.arange(pixels, dtype=dtype) - means[..., None]
    return ops.softmax(-ops.square(distances) / (2 * variance[..., None, None]))


def window(parameters: Tensor, size: int, pixels: int) -> Window:
    r"""The window that five numbers of the decoder describe.

    They are $\tilde g_x, \tilde g_y, \log \sigma^2, \log \tilde\delta, \log \gamma$; zeros stand
    for a grid over the whole image. The paper counts pixels from 1, with
    $g = (A + 1)(\tilde g + 1) / 2$; counted from 0 that is
    $(A + 1) \tilde g / 2 + (A - 1) / 2$, and without the shift every window lies half a pixel off.
    The stride is $(A - 1) \tilde\delta / (N - 1)$. The logarithms are clipped at plus and minus
    ten, where a filter is narrower than a hundredth of a pixel or wider than the image.

    Args:
        parameters: `(B, 5)`.
        size: Number N of filters a side, at least 2.
        pixels: Number A of pixels a side.

    References:
        [Gregor et al., 2015](https://arxiv.org/abs/1502.04623), eq. (21)-(24).
    """
    centre = (pixels + 1) / 2 * parameters[:, :2] + (pixels - 1) / 2
    logs = ops.clip(parameters[:, 2:], -LIMIT, LIMIT)
    variance, stride = ops.exp(logs[:, 0]), (pixels - 1) / (size - 1) * ops.exp(logs[:, 1])
    strides, variances = (ops.stack([value, value], -1) for value in (stride, variance))
    filters = filter_bank(centre, strides, variances, size, pixels)
    return Window(filters, logs[:, 2], centre, stride)


def read(images: Tensor, at: Window) -> Tensor:
    r"""What a window sees of images: $\gamma F_Y x F_X^T$, eq. (27).

    Args:
        images: `(B, channels, pixels, pixels)`.
        at: The `Window`.

    Returns:
        The patches, one after the other, `(B, channels * size * size)`.
    """
    columns, rows = at.filters[:, 0], at.filters[:, 1]
    size, channels = rows.shape[1], images.shape[1]
    patches = rows[:, None] @ (images @ ops.transpose(columns, (0, 2, 1))[:, None])
    flat = ops.reshape(patches, (-1, channels * size * size))
    return flat * ops.exp(at.log_intensity)[:, None]


def write(patch: Tensor, at: Window) -> Tensor:
    r"""What a window leaves on the canvas: $F_Y^T w F_X / \gamma$, eq. (29).

    Args:
        patch: `(B, size * size)`.
        at: The `Window`.

    Returns:
        `(B, pixels, pixels)`.
    """
    columns, rows = at.filters[:, 0], at.filters[:, 1]
    size = rows.shape[1]
    patch = ops.reshape(patch * ops.exp(-at.log_intensity)[:, None], (-1, size, size))
    return ops.transpose(rows, (0, 2, 1)) @ (patch @ columns)

"""Sliding windows: the kernels of convolutions, pools and the local response norm."""

from tilewright.graph.kernels.call import Kernel, widened
from tilewright.graph.kernels.convolution import conv, conv_integer, conv_transpose, qlinear_conv
from tilewright.graph.kernels.pooling import (
    average_pool,
    global_average_pool,
    global_lp_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    response_norm,
)

KERNELS: dict[str, Kernel] = {
    "Conv": widened(conv),
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
    "ConvTranspose": widened(conv_transpose),
    "MaxPool": max_pool,
    "AveragePool": widened(average_pool),
    "LpPool": widened(lp_pool),
    "GlobalAveragePool": widened(global_average_pool),
    "GlobalMaxPool": global_max_pool,
    "GlobalLpPool": widened(global_lp_pool),
    "LRN": widened(response_norm),
}
